// Shows the weights of attention heads over the words of a text: the word that is chosen asks, and every word shows
// the weight that the head gives it. Two networks are shown one below the other.
(() => {
  const page = document.getElementById("attention");
  const runs = JSON.parse(document.getElementById("attention-runs").textContent);
  const SMALLEST = 0.005; // a smaller weight rounds to 0 % and has no number
  const PARTS = 0.05; // a row with three weights above this shows more than one word

  /** Returns the heads of a run with their names; each has a matrix of weights, whose rows ask and columns answer. */
  const headsOf = (run) => run.blocks.flatMap((block, i) =>
    block.weights.map((weights, h) => ({ name: `block ${i + 1}, head ${h + 1}`, weights })));

  /** Returns a row as shares that are not negative and sum to one. */
  const shares = (row) => {
    const sum = row.reduce((total, weight) => total + Math.abs(weight), 0) || 1;
    return row.map((weight) => Math.abs(weight) / sum);
  };

  /** Returns the information in nats of each row of a head about who asks: its divergence from the mean row. */
  const information = (weights) => {
    const rows = weights.map(shares);
    const mean = rows[0].map((_, j) => rows.reduce((total, row) => total + row[j], 0) / rows.length);
    return rows.map((row) => row.reduce((total, p, j) => total + (p > 0 ? p * Math.log(p / mean[j]) : 0), 0));
  };

  const largest = (numbers) => numbers.indexOf(Math.max(...numbers));

  /** Returns the head that depends most on the word that asks. */
  const telling = (heads) => largest(heads.map(({ weights }) =>
    information(weights).reduce((total, nats) => total + nats, 0) / weights.length));

  /** Returns the word for which a head differs most from its mean, among those that take from three words or more. */
  const askingFirst = (weights) => {
    const several = weights.map((row) => shares(row).filter((p) => p >= PARTS).length >= 3);
    const nats = information(weights).map((value, i) => (several[i] ? value : -1));
    return largest(nats);
  };

  const percent = (weight) => (Math.abs(weight) < SMALLEST ? "" : `${Math.round(100 * weight)} %`);
  const element = (name, className, ...children) => {
    const made = document.createElement(name);
    made.className = className;
    made.append(...children);
    return made;
  };
  const chooser = (name, options) => {
    const select = document.createElement("select");
    select.append(...options.map((option, i) => new Option(option, i)));
    return [select, element("label", "", `${name} `, select)];
  };

  const panels = [];

  /** Adds a panel with one network. */
  const panel = (first) => {
    const [network, networks] = chooser("Network", runs.map((run) => run.run));
    const [head, heads] = chooser("Head", []);
    const said = element("p", "attention-said");
    const words = element("div", "attention-words");
    said.setAttribute("aria-live", "polite");
    words.setAttribute("role", "group");
    words.setAttribute("aria-label", "words of the text");
    networks.hidden = runs.length === 1;
    network.value = first;
    page.append(element("div", "attention-panel", element("p", "", networks, heads), said, words));
    let asking = 0;

    const run = () => runs[network.value];
    const matrix = () => headsOf(run())[head.value].weights;

    const show = () => {
      const row = matrix()[asking];
      const most = Math.max(...row.map(Math.abs)) || 1;
      [...words.children].forEach((button, i) => {
        button.setAttribute("aria-pressed", i === asking);
        const [bar, , number] = button.children;
        bar.firstChild.style.height = `${percent(row[i]) ? (100 * Math.abs(row[i])) / most : 0}%`;
        bar.classList.toggle("negative", row[i] < 0);
        number.textContent = percent(row[i]);
      });
      const order = row.map((_, i) => i).sort((i, j) => Math.abs(row[j]) - Math.abs(row[i])).slice(0, 3);
      const named = order.filter((i) => percent(row[i])).map((i) => `“${run().tokens[i]}” ${percent(row[i])}`);
      said.textContent = `“${run().tokens[asking]}” attends to ${named.join(", ") || "no word above 0.5 %"}.`;
    };

    /** Lets a word ask, and the same word in the other panels that show the same text. */
    const ask = (i) => {
      asking = i;
      show();
    };
    const askAll = (i) => {
      const text = run().tokens.join(" ");
      panels.filter((other) => other.text() === text).forEach((other) => other.ask(i));
    };

    const word = (token, i) => {
      const bar = element("span", "bar", document.createElement("span"));
      const button = element("button", "", bar, element("span", "", token), element("span", "number"));
      button.type = "button";
      ["click", "focus", "pointerenter"].forEach((event) => button.addEventListener(event, () => askAll(i)));
      return button;
    };

    const choose = () => {
      const list = headsOf(run());
      head.replaceChildren(...list.map(({ name }, i) => new Option(name, i)));
      words.replaceChildren(...run().tokens.map(word));
      head.value = telling(list);
      asking = askingFirst(matrix());
      show();
    };

    network.addEventListener("change", choose);
    head.addEventListener("change", show);
    choose();
    panels.push({ ask, text: () => run().tokens.join(" ") });
  };

  panel(0);
  if (runs.length > 1) panel(1);
  page.hidden = false;
})();
