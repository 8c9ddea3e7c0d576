// The desk's conveniences. Every page works without them.
"use strict";

// A form that was sent is not sent a second time by a double click; the server would take it for the same answer anyway.
for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  });
}
// Back shows the page as it was left: it can be sent again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
});

// Prepared answers go into the box, where they can be changed.
for (const chip of document.querySelectorAll("[data-into]")) {
  chip.hidden = false;
  chip.addEventListener("click", (event) => {
    event.preventDefault();
    const box = document.getElementById(chip.dataset.into);
    box.value = box.value.trim() ? `${box.value.trimEnd()}\n${chip.dataset.text}` : chip.dataset.text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  });
}

// What the agent will read follows what is typed.
for (const shown of document.querySelectorAll("[data-of]")) {
  const box = document.getElementById(shown.dataset.of);
  const follow = () => {
    shown.textContent = box.value || shown.dataset.empty;
  };
  box.addEventListener("input", follow);
  follow();
}

// Ctrl+Enter and Ctrl+Shift+Enter press the buttons that say so.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
  const form = event.target.closest("form");
  const button = form && form.querySelector(`[data-keys="${event.shiftKey ? "Shift+Enter" : "Enter"}"]`);
  if (!button) return;
  event.preventDefault();
  form.requestSubmit(button);
});

// A draft outlives a session that ran out and a page that was left by accident; for this tab only.
for (const form of document.querySelectorAll("form[data-draft]")) {
  const box = form.querySelector("textarea");
  const kept = sessionStorage.getItem(form.dataset.draft);
  if (kept && !box.value) {
    box.value = kept;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
  box.addEventListener("input", () => sessionStorage.setItem(form.dataset.draft, box.value));
}
for (const done of document.querySelectorAll("[data-drop-draft]")) sessionStorage.removeItem(done.dataset.dropDraft);

// The queue: pick all, and say when new requests came.
const pickAll = document.getElementById("pick-all");
if (pickAll) {
  pickAll.hidden = false;
  pickAll.addEventListener("change", () => {
    for (const box of document.querySelectorAll('#queue input[name="id"]')) box.checked = pickAll.checked;
  });
}

const hint = document.getElementById("new-hint");
if (hint) {
  const link = hint.querySelector("a");
  const look = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(hint.dataset.url, { credentials: "same-origin", redirect: "error" });
      const count = answer.ok ? (await answer.json()).new : 0;
      if (count) {
        link.textContent = count === 1 ? "1 new request" : `${count} new requests`;
        link.hidden = false;
      }
    } catch {
      // The server is away for a moment, or the session is over: the next look, or the next click, will tell.
    }
  };
  setInterval(look, Number(hint.dataset.every || 10) * 1000);
  document.addEventListener("visibilitychange", look);
}
