// A run's page says when its stream breaks off, until it goes on.
const say = (name) => {
  const place = document.getElementById("away");
  if (place) place.textContent = name ? place.dataset[name] : "";
};
document.addEventListener("htmx:sse:error", (event) => {
  if (!document.hidden) say(event.detail.status === 403 ? "closed" : "away");
});
document.addEventListener("htmx:sse:after:connection", () => say(""));
