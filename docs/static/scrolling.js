// What scrolls sideways can be scrolled with the keyboard, too: it gets a place in the order of the tab key.
(() => {
  const update = () => document.querySelectorAll("pre, .table-wrapper, div.math, figure.wide").forEach((element) => {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  });
  window.addEventListener("load", update);
  window.addEventListener("resize", update);
})();
