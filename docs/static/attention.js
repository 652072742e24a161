// Words of a text as buttons: the one that is chosen asks, and every word shows the weight that a head gives it.
(() => {
  const byId = (name) => document.getElementById(`attention-${name}`);
  const runs = JSON.parse(byId("runs").textContent);
  let asking = 0;

  /** Heads of a run by their names, each a matrix of weights: rows ask, columns answer. */
  const heads = (run) => run.blocks.flatMap((block, i) =>
    block.weights.map((weights, h) => ({ name: `block ${i + 1}, head ${h + 1}`, weights })));

  const options = (select, names) => {
    select.replaceChildren(...names.map((name, i) => new Option(name, i)));
  };

  const percent = (weight) => `${Math.round(100 * weight)} %`;

  const show = () => {
    const run = runs[byId("run").value];
    const row = heads(run)[byId("head").value].weights[asking];
    const most = Math.max(...row.map(Math.abs));
    [...byId("words").children].forEach((button, i) => {
      button.setAttribute("aria-pressed", i === asking);
      const [bar, , number] = button.children;
      bar.firstChild.style.height = `${(100 * Math.abs(row[i])) / most}%`;
      bar.classList.toggle("negative", row[i] < 0);
      number.textContent = percent(row[i]);
    });
    const order = row.map((_, i) => i).sort((i, j) => Math.abs(row[j]) - Math.abs(row[i])).slice(0, 3);
    const named = order.map((i) => `“${run.tokens[i]}” ${percent(row[i])}`).join(", ");
    byId("said").textContent = `“${run.tokens[asking]}” takes most from ${named}.`;
  };

  const ask = (i) => { asking = i; show(); };

  const word = (token, i) => {
    const button = document.createElement("button");
    button.type = "button";
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.append(document.createElement("span"));
    const text = document.createElement("span");
    text.textContent = token;
    const number = document.createElement("span");
    number.className = "number";
    button.append(bar, text, number);
    button.addEventListener("click", () => ask(i));
    button.addEventListener("focus", () => ask(i));
    button.addEventListener("pointerenter", () => ask(i));
    return button;
  };

  const choose = () => {
    const run = runs[byId("run").value];
    options(byId("head"), heads(run).map((head) => head.name));
    byId("words").replaceChildren(...run.tokens.map(word));
    byId("head").selectedIndex = heads(run).length - 1;  // the last ones have learned most
    asking = Math.min(asking, run.tokens.length - 1);
    show();
  };

  byId("run").parentElement.hidden = runs.length === 1;
  options(byId("run"), runs.map((run) => run.run));
  byId("run").addEventListener("change", choose);
  byId("head").addEventListener("change", show);
  document.getElementById("attention").hidden = false;
  choose();
})();
