// Decide by keyboard: a key presses a button of the item that has the focus, or opens its field.
{
  const QUIET_MS = 500;
  const keys = document.getElementById("keys");
  const items = () => [...document.querySelectorAll("article.item")];
  const here = () => document.activeElement?.closest("article.item");
  // Keys do nothing for a moment after a decision, so that one pressed twice decides once.
  let quietUntil = 0;

  const focus = (item) => {
    item?.focus({ preventScroll: true });
    item?.scrollIntoView({ block: "start" });
  };

  const move = (step) => {
    const all = items();
    const at = all.indexOf(here());
    focus(all[at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)]);
  };

  const act = (key) => {
    const item = here();
    const pressed = [...(item?.querySelectorAll("[data-key]") ?? [])].find((one) => one.dataset.key === key);
    if (!pressed || performance.now() < quietUntil || item.getAttribute("aria-busy") === "true") return false;
    if (pressed.matches("summary")) {
      pressed.parentElement.open = true;
      pressed.parentElement.querySelector("textarea, input:not([type=hidden])").focus();
    } else {
      pressed.click();
    }
    return true;
  };

  const MOVES = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (at.matches("input, textarea, select")) {
      if (event.key === "Escape") focus(at.closest("article.item"));
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at.form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || keys?.open) return;
    // Within a wide table the arrows scroll.
    const scrolls = event.key.startsWith("Arrow") && at.closest(".wide");
    if (event.key === "?" && keys) keys.showModal();
    else if (event.key === "u" && keys) location.reload();
    else if (event.key in MOVES && !scrolls) move(MOVES[event.key]);
    else if (event.repeat || !act(event.key)) return;
    event.preventDefault();
  });

  // The answer to a decision replaces its item; then the next item has the focus, or what was refused.
  const articles = () => [...document.querySelectorAll("article.item, article.decided")];
  let at = 0;
  document.addEventListener("htmx:before:request", (event) => {
    const item = event.target.closest?.("article.item");
    if (!item) return;
    at = articles().indexOf(item);
    item.setAttribute("aria-busy", "true");
  });
  document.addEventListener("htmx:after:swap", (event) => {
    quietUntil = performance.now() + QUIET_MS;
    // News of a run, which may come while somebody types.
    if (event.detail.ctx.sourceElement.id === "run") return;
    const after = articles().slice(at);
    const next = after.find((one) => one.matches(".item")) ?? items().at(-1) ?? after[0];
    const refused = next?.querySelector("[aria-invalid]");
    if (refused) refused.focus();
    else focus(next);
  });

  if (keys && items().length && !location.hash) focus(items()[0]);
}
