// A figure, table or formula that is wider than the screen scrolls in its box. Here the box is made to say so: it fades
// where it goes on, and the keyboard can reach it, whose arrow keys then move it. Without this script it scrolls as well.
(() => {
  const KINDS = {
    ".cell_output:has(img)": "figure",
    ".pst-scrollable-table-container": "table",
    'mjx-container[display="true"]': "formula",
  };

  const words = (one) => [...one?.childNodes ?? []].filter((part) => !part.classList?.contains("headerlink"))
    .map((part) => part.textContent).join("").trim();

  // A figure has its number from the caption below, the others have the heading above.
  function name(box, kind) {
    const caption = words(box.closest(".cell")?.nextElementSibling?.querySelector("strong"));
    const heading = words(box.closest("section")?.querySelector("h1, h2, h3, h4"));
    return `${caption.startsWith("Figure") ? caption : `${kind} below “${heading}”,`} which scrolls sideways`;
  }

  function look(box, kind) {
    const hidden = box.scrollWidth - box.clientWidth, wide = box.clientWidth > 0 && hidden > 1;
    box.classList.toggle("more-left", wide && box.scrollLeft > 1);
    box.classList.toggle("more-right", wide && box.scrollLeft < hidden - 1);
    if (box.dataset.scrolls === String(wide)) { return; }
    box.dataset.scrolls = wide;
    ["tabindex", "role", "aria-label"].forEach((one) => box.removeAttribute(one));
    if (!wide) { return; }
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", name(box, kind));
  }

  function start() {
    for (const [selector, kind] of Object.entries(KINDS)) {
      document.querySelectorAll(`article ${selector}`).forEach((box) => {
        const again = () => look(box, kind), watch = new ResizeObserver(again);
        [box, ...box.querySelectorAll("img, table, svg")].forEach((part) => watch.observe(part));
        box.addEventListener("scroll", again, { passive: true });
      });
    }
  }

  Promise.resolve(window.MathJax?.startup?.promise).then(start);
})();
