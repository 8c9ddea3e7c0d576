// The customer's page: everything that it shows is asked of the JSON API, and everything is shown as plain text.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);
  const { api, login, user, userId, limit, csrf } = byId("desk").dataset;
  const LIMIT = Number(limit);
  const DRAFT = `draft-${userId}`; // who signs in next at the same screen does not read it
  const OPEN_TURN = ["queued", "running", "waiting"];
  const PAGE = 200;

  // `pages` are the pages of the history with the cursors that they begin at; only the last one is asked for again.
  // `outbox` is what was typed here and has not been seen in the history yet.
  const state = {
    id: "", conversation: null, pages: [], turn: null, tasks: [], waiting: [], outbox: [], agents: [], shownIds: null,
    conversations: [], listed: false, begun: false, older: "", unseen: 0, opening: null, activeAt: Date.now(),
  };

  // --- Talking to the server
  class Problem extends Error {
    constructor(status, detail) {
      super(detail);
      this.status = status;
    }
  }

  async function call(path, body, key) {
    const options = { credentials: "same-origin", headers: { Accept: "application/json" }, signal: AbortSignal.timeout(20000) };
    if (body !== undefined) {
      options.method = "POST";
      options.body = JSON.stringify(body);
      Object.assign(options.headers, { "Content-Type": "application/json", "X-CSRFToken": csrf });
      if (key) options.headers["Idempotency-Key"] = key; // sent again, it has its effect once
    }
    let response, found;
    try {
      response = await fetch(api + path, options);
      found = response.status === 204 ? null : await response.json();
    } catch {
      if (!response || response.ok) throw new Problem(0, "The server cannot be reached.");
    }
    if (response.ok) return found;
    if (response.status === 401) endSession();
    throw new Problem(response.status, (found && found.detail) || `The server answered ${response.status}.`);
  }

  function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  // --- Making elements. Text is only ever set as text.
  function el(tag, options = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "text") made.textContent = value;
      else if (name === "onclick") made.addEventListener("click", value);
      else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter(Boolean));
    return made;
  }

  function show(element, visible) {
    element.hidden = !visible;
  }

  function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
    show(element, Boolean(text));
  }

  function time(iso) {
    const when = new Date(iso);
    const clock = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    const today = when.toDateString() === new Date().toDateString();
    const text = today ? clock : `${when.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })} ${clock}`;
    return el("time", { datetime: iso, text });
  }

  // Brings a list into line with `entries`, touching only what changed, so that focus and unfolded parts stay.
  function reconcile(list, entries, build) {
    const old = new Map(Array.from(list.children, (child) => [child.dataset.key, child]));
    let before = null;
    for (const entry of entries) {
      const signature = JSON.stringify(entry.data);
      let element = old.get(entry.key);
      old.delete(entry.key);
      if (!element || element.signature !== signature) {
        const made = build(entry.data);
        made.dataset.key = entry.key;
        made.signature = signature;
        if (element) {
          const unfolded = Array.from(element.querySelectorAll("details"), (details) => details.open);
          made.querySelectorAll("details").forEach((details, place) => { details.open = Boolean(unfolded[place]); });
          element.replaceWith(made);
        }
        element = made;
      }
      const next = before ? before.nextSibling : list.firstChild;
      if (next !== element) list.insertBefore(element, next);
      before = element;
    }
    for (const gone of old.values()) gone.remove();
  }

  // --- Messages
  const scroll = byId("scroll");
  let atEnd = true;
  const STATUS_WORDS = {
    pending: "not begun", running: "running", waiting: "waiting", deferred: "later", done: "done", failed: "failed",
    denied: "refused", aborted: "not run", unknown: "outcome unknown",
  };
  const FRAME = /^\[\[mail (\w+) item (\d+) tag (\S+?)( unasked)?: ([^\n]*)\]\]\n\[\[\1 request\]\]\n([^]*)\n\[\[\1 response\]\]\n([^]*)\n\[\[end of mail \1\]\]$/;

  // What an agent asked another by letter: whom it waits for, and the question.
  const LETTER = /^Waiting for (.+?) to answer: (.*)/;

  function inWords(tag, request = "") {
    const [kind, ...rest] = tag.split(":");
    if (kind === "mesh") return meshInWords(rest, LETTER.exec(request));
    const known = { restock: "Back in stock: ", pay: "Payment: order ", approval: "Approval: ", roast: "Next roast: " }[kind];
    return known && rest.length ? known + rest.join(" ").replaceAll("_", " ") : tag.replaceAll(":", " ");
  }

  function meshInWords([what, ...rest], letter) {
    const writer = rest[rest.length - 1];
    if (what === "waiting") return `Answer from ${letter ? letter[1] : "another agent"}`;
    if (what === "ack" || what === "acks") return what === "ack" ? `Taken up by ${writer}` : "Taken up";
    return `Letter${what === "broadcast" ? " to all" : ""} from ${writer}`;
  }

  function question(request) {
    const letter = LETTER.exec(request);
    return letter ? letter[2] : request;
  }

  function head(who, iso, note) {
    return el("p", { class: "head" }, el("span", { class: "who", text: who }), iso && time(iso), note && el("span", { class: "note", text: note }));
  }

  function folded(summary, className, ...children) {
    return el("details", { class: className }, el("summary", { text: summary }), ...children);
  }

  function buildMessage(message) {
    if (message.kind === "inbox") return el("li", { class: "message mail" }, buildMail(message));
    if (message.kind !== "message") {
      const titles = { summary: "Summary of what was said before", skill: "Instructions that were added", notice: "Notice" };
      return el("li", { class: "message aside" }, folded(titles[message.kind] || message.kind, "fold", el("p", { class: "words", text: message.text })));
    }
    const mine = message.sender === "user";
    const queued = mine && message.turn === null ? "queued" : "";
    const calls = message.tool_calls.length ? buildCalls(message.tool_calls) : null;
    const words = message.text && el("p", { class: "words", text: message.text });
    if (!mine && !words) return el("li", { class: "message aside" }, calls);
    return el("li", { class: `message ${mine ? "mine" : "theirs"}` }, head(mine ? "You" : agentName(), message.created_at, queued), words, calls);
  }

  function buildMail(message) {
    const found = FRAME.exec(message.text);
    if (!found) return folded("Mail received", "fold", el("p", { class: "words", text: message.text }));
    const [, , item, tag, unasked, how, request, response] = found;
    return folded(
      `Mail received: ${inWords(tag, request)}`, "fold",
      el("p", { class: "quiet", text: `Item ${item}, ${tag}, ${how}` }),
      el("p", { class: "label", text: unasked ? "About" : "Asked" }), el("p", { class: "words", text: question(request) }),
      el("p", { class: "label", text: "Answer" }), el("p", { class: "words", text: response }),
    );
  }

  function buildCalls(calls) {
    const names = calls.map((made) => `${made.name}${made.status === "done" ? "" : ` (${STATUS_WORDS[made.status] || made.status})`}`);
    return folded(
      `Used ${names.join(", ")}`, "fold calls",
      ...calls.map((made) => el(
        "div", { class: "call" },
        el("p", { class: "label", text: `${made.name}: ${STATUS_WORDS[made.status] || made.status}` }),
        el("pre", { text: typeof made.input === "string" ? made.input : JSON.stringify(made.input, null, 1) }),
        made.result && el("pre", { text: made.result }),
      )),
    );
  }

  function buildUnsent(entry) {
    const note = { sending: "sending", queued: "queued", failed: "not sent" }[entry.status];
    const failed = entry.status === "failed";
    const unsent = el("li", { class: `message mine${failed ? " failed" : ""}` }, head("You", null, note), el("p", { class: "words", text: entry.text }));
    if (failed) {
      unsent.append(el(
        "p", { class: "trouble" }, el("span", { text: `${entry.error} ` }),
        el("button", { type: "button", text: "Send again", onclick: () => sendAgain(entry.key) }),
        el("button", { type: "button", text: "Discard", onclick: () => discard(entry.key) }),
      ));
    }
    return unsent;
  }

  function shownMessages() {
    const seen = new Set();
    return state.pages.flatMap((page) => page.items).filter((message) => !seen.has(message.id) && seen.add(message.id));
  }

  // Replies that hold nothing but calls, one after the other, are one line.
  function withCallsTogether(messages) {
    const silent = (message) => message.sender === "agent" && message.kind === "message" && !message.text;
    const shown = [];
    for (const message of messages) {
      const before = shown[shown.length - 1];
      if (before && silent(before) && silent(message)) {
        shown[shown.length - 1] = { ...before, tool_calls: [...before.tool_calls, ...message.tool_calls] };
      } else shown.push(message);
    }
    return shown;
  }

  function renderMessages() {
    const messages = shownMessages();
    const ids = new Set(messages.map((message) => message.id));
    state.outbox = state.outbox.filter((entry) => !ids.has(entry.id));
    const unsent = state.outbox.filter((entry) => entry.conversation === state.id);
    const entries = withCallsTogether(messages).map((message) => ({ key: `m${message.id}`, data: message }));
    for (const { key, text, status, error } of unsent) entries.push({ key: `o${key}`, data: { unsent: true, key, text, status, error } });
    reconcile(byId("messages"), entries, (data) => (data.unsent ? buildUnsent(data) : buildMessage(data)));
    say(byId("empty"), entries.length ? "" : state.id ? "Nothing has been said yet." : "Say what you would like. The agent answers here, and writes to you when something that it waits for has come.");
    if (state.pages.length) announce(messages);
    stayAtEnd();
  }

  // The newest message stays in sight, unless the reader has scrolled away from it.
  function stayAtEnd() {
    if (atEnd) scroll.scrollTop = scroll.scrollHeight;
  }

  function announce(messages) {
    const spoken = messages.filter((message) => message.sender === "agent" && message.kind === "message" && message.text);
    const fresh = state.shownIds ? spoken.filter((message) => !state.shownIds.has(message.id)) : [];
    state.shownIds = new Set(spoken.map((message) => message.id));
    if (!fresh.length) return;
    state.activeAt = Date.now();
    byId("announce").textContent = fresh.map((message) => `${agentName()}: ${message.text}`).join("\n");
    if (document.hidden) state.unseen += fresh.length;
    titlePage();
  }

  function titlePage() {
    document.title = `${state.unseen ? `(${state.unseen}) ` : ""}The coffee shop`;
  }

  function agentName() {
    const name = state.conversation ? state.conversation.agent : "agent";
    return name.charAt(0).toUpperCase() + name.slice(1);
  }

  // --- The turn, the tasks, what is waited for
  function renderTurn() {
    const turn = state.turn || { status: "", reason: "", error: "" };
    const because = turn.error || turn.reason.replaceAll("_", " ");
    const texts = {
      queued: turn.reason ? `${agentName()} will try again soon: ${because}` : `${agentName()} will begin in a moment.`,
      running: `${agentName()} is working …`,
      waiting: `${agentName()} is waiting.`,
      failed: `${agentName()} could not finish: ${because}`,
      cancelled: "Stopped.",
    };
    const open = state.conversation && state.conversation.status === "open";
    say(byId("state-text"), texts[turn.status] || "");
    show(byId("state"), Boolean(texts[turn.status]));
    show(byId("stop"), OPEN_TURN.includes(turn.status));
    show(byId("retry"), turn.status === "failed" && open);
  }

  function renderBeside() {
    reconcile(byId("waiting"), state.waiting.map((item) => ({ key: item.id, data: item })), (item) => el(
      "li", {},
      el("p", { class: "label", text: inWords(item.tag, item.request) }),
      el("p", { class: "words", text: question(item.request.split("\n", 1)[0]) }),
      el("p", { class: "quiet" }, "since ", time(item.created_at), item.due_at && ", at most until ", item.due_at && time(item.due_at)),
      item.blocking && el("p", { class: "blocking", text: "The agent said that it would wait for this." }),
    ));
    const words = { pending: "to do", in_progress: "under way", completed: "done" };
    reconcile(byId("tasks"), state.tasks.map((task) => ({ key: task.id, data: task })), (task) => el(
      "li", { class: task.status },
      el("span", { class: "note", text: words[task.status] }),
      el("span", { class: "words", text: task.status === "in_progress" ? task.activeForm : task.content }),
    ));
    show(byId("waiting-none"), !state.waiting.length);
    show(byId("tasks-none"), !state.tasks.length);
    const open = state.tasks.filter((task) => task.status !== "completed").length;
    byId("beside-summary").textContent = `Waiting: ${state.waiting.length} · Tasks: ${open}`;
  }

  // --- Conversations
  function renderConversations() {
    reconcile(byId("conversations"), state.conversations.map((found) => ({ key: found.id, data: [found, found.id === state.id] })), ([found, here]) => el(
      "li", {},
      el(
        "a", { href: `#${found.id}`, "aria-current": here && "true" },
        el("span", { class: "words", text: found.title || `With ${found.agent}` }),
        el("span", { class: "quiet" }, time(found.created_at), found.status === "closed" && ", closed"),
      ),
    ));
    show(byId("more-conversations"), Boolean(state.older));
  }

  function renderFrame() {
    const { conversation } = state;
    const closed = Boolean(conversation) && conversation.status === "closed";
    say(byId("title"), conversation ? conversation.title || `With ${conversation.agent}` : "New conversation");
    show(byId("close"), Boolean(conversation) && !closed);
    show(byId("composer"), !closed);
    show(byId("closed"), closed);
    show(byId("agent-line"), !state.id && state.agents.length > 1);
  }

  function render() {
    renderFrame();
    renderConversations();
    renderMessages();
    renderTurn();
    renderBeside();
  }

  // A member of staff sees other people's conversations through the API; this page is for her own.
  function isMine(found) {
    const mailbox = `${found.mailbox}/`.toLowerCase();
    return [user, `user-${userId}`].some((name) => mailbox.startsWith(`${found.agent}/${name}/`.toLowerCase()));
  }

  async function loadConversations(cursor) {
    const page = await call(`/conversations?limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    const known = new Map(state.conversations.map((found) => [found.id, found]));
    for (const found of page.items.filter(isMine)) known.set(found.id, found);
    state.conversations = [...known.values()].sort((one, other) => Number(other.id) - Number(one.id));
    if (cursor || !state.listed) Object.assign(state, { listed: true, older: page.next || "" });
  }

  function goTo(id) {
    Object.assign(state, { id, conversation: null, pages: [], turn: null, tasks: [], waiting: [], shownIds: null });
    state.conversation = state.conversations.find((found) => found.id === id) || null;
    if (narrow.matches) byId("list-fold").open = false;
    atEnd = true;
    byId("messages").replaceChildren();
    render();
    poll();
  }

  function fromAddress() {
    const id = location.hash.slice(1);
    if (/^\d*$/.test(id) && id !== state.id) goTo(id);
  }

  function startNew() {
    state.begun = true;
    setAddress("");
    goTo("");
    byId("text").focus();
  }

  function setAddress(id) {
    history.pushState(null, "", id ? `#${id}` : location.pathname);
  }

  // --- Sending
  let line = Promise.resolve();

  function send(text) {
    const entry = { key: newKey(), text, status: "sending", error: "", conversation: state.id, id: "" };
    state.outbox.push(entry);
    state.activeAt = Date.now();
    atEnd = true;
    renderMessages();
    line = line.then(() => deliver(entry)); // one after the other, or they could arrive in another order
  }

  async function deliver(entry) {
    entry.status = "sending";
    renderMessages();
    try {
      if (!entry.conversation) await openFor(entry);
      const sent = await call(`/conversations/${entry.conversation}/messages`, { text: entry.text }, entry.key);
      Object.assign(entry, { status: "queued", id: sent.id });
    } catch (problem) {
      Object.assign(entry, { status: "failed", error: problem.message });
      if (ended && !text.value) takeBack(entry);
    }
    renderMessages();
    poll();
  }

  // The first message of a new conversation opens it. What was typed behind it goes there too.
  async function openFor(entry) {
    if (!state.agents.length) await loadAgents();
    const agent = byId("agent").value;
    const title = titleFor(entry.text);
    const opened = await call("/conversations", { agent, title }, `${entry.key}-open`);
    for (const other of state.outbox) if (!other.conversation) other.conversation = opened.id;
    state.conversations.unshift(opened);
    if (!state.id) {
      setAddress(opened.id);
      Object.assign(state, { id: opened.id, conversation: opened, shownIds: new Set() });
      render();
    }
  }

  // Into the text box again, whose draft outlives a sign-in.
  function takeBack(entry) {
    state.outbox = state.outbox.filter((other) => other !== entry);
    text.value = entry.text;
    measure();
  }

  // The first line, short enough for a title in any script; none where nothing of it would be seen.
  function titleFor(words) {
    const line = Array.from(words.trim().split("\n", 1)[0]).slice(0, 45).join("");
    return /[\p{L}\p{N}\p{P}\p{S}]/u.test(line) ? line : "";
  }

  function sendAgain(key) {
    const entry = state.outbox.find((found) => found.key === key);
    if (entry) line = line.then(() => deliver(entry));
    byId("text").focus();
  }

  function discard(key) {
    state.outbox = state.outbox.filter((entry) => entry.key !== key);
    renderMessages();
    byId("text").focus();
  }

  async function act(path, button) {
    button.disabled = true;
    try {
      await call(`/conversations/${state.id}/${path}`, {}, newKey());
      hideBanner();
    } catch (problem) {
      banner(problem.message);
    }
    button.disabled = false;
    stale = true;
    poll();
  }

  // --- The composer
  const text = byId("text");

  function measure() {
    const bytes = new TextEncoder().encode(text.value).length;
    const over = bytes - LIMIT;
    say(byId("problem"), over > 0 ? `Too long by ${over.toLocaleString()} bytes: a message has at most ${LIMIT.toLocaleString()}.` : "");
    byId("send").disabled = over > 0;
    text.setAttribute("aria-invalid", String(over > 0));
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, 200)}px`;
    try {
      sessionStorage.setItem(DRAFT, text.value); // it outlives a sign-in
    } catch {
      // A browser that keeps nothing, or a text that is too large: only the draft is lost.
    }
    return over <= 0;
  }

  function submit() {
    if (!text.value.trim() || !measure()) return;
    send(text.value);
    text.value = "";
    measure();
    text.focus();
  }

  // --- Asking again and again
  let timer = 0, polling = false, again = false, ended = false, faults = 0, stale = true, rounds = 0;

  async function refresh() {
    if (!state.agents.length) await loadAgents();
    if (stale || rounds % 10 === 0) {
      await loadConversations();
      stale = false;
    }
    rounds += 1;
    if (!state.begun) begin();
    const { id } = state;
    if (!id) return;
    const conversation = await call(`/conversations/${id}`);
    const pending = `/inbox/items?status=pending&limit=50&mailbox=${encodeURIComponent(conversation.mailbox)}`;
    const [turns, tasks, items] = await Promise.all([
      call(`/conversations/${id}/turns?limit=1`), call(`/conversations/${id}/tasks?limit=200`), call(pending), loadMessages(id),
    ]);
    if (id !== state.id) return;
    state.conversation = conversation;
    state.conversations = state.conversations.map((found) => (found.id === id ? conversation : found));
    Object.assign(state, { turn: turns.items[0] || null, tasks: tasks.items, waiting: items.items.reverse() });
  }

  // Who comes back finds the conversation that was open last.
  function begin() {
    state.begun = true;
    const latest = state.conversations.find((found) => found.status === "open");
    if (state.id || state.outbox.length || !latest) return;
    history.replaceState(null, "", `#${latest.id}`);
    goTo(latest.id);
  }

  async function loadAgents() {
    state.agents = (await call("/agents")).items;
    const names = state.agents.map((agent) => agent.name);
    byId("agent").replaceChildren(...names.map((name) => el("option", { value: name, text: name, selected: name === "concierge" })));
  }

  // Pages that may still change: one with a message that waited, or with a call that ran, when it was read.
  function unsettled(page) {
    return page.items.some((message) => (message.sender === "user" && message.kind === "message" && message.turn === null)
      || message.tool_calls.some((made) => ["pending", "running", "waiting", "deferred"].includes(made.status)));
  }

  async function loadMessages(id) {
    const pages = state.pages.length ? [...state.pages] : [{ cursor: "", items: [] }];
    while (pages.length > 1 && unsettled(pages[pages.length - 2])) pages.pop();
    for (;;) {
      const last = pages.pop();
      const page = await call(`/conversations/${id}/messages?limit=${PAGE}${last.cursor ? `&cursor=${encodeURIComponent(last.cursor)}` : ""}`);
      pages.push({ cursor: last.cursor, items: page.items });
      if (!page.next) break;
      pages.push({ cursor: page.next, items: [] });
    }
    if (id === state.id) state.pages = pages;
  }

  function pause() {
    if (document.hidden) return 20000;
    const busy = state.turn && OPEN_TURN.includes(state.turn.status) || state.outbox.some((entry) => entry.status === "queued");
    if (busy) return 700;
    return Date.now() - state.activeAt < 300000 ? 2000 : 5000;
  }

  async function poll() {
    clearTimeout(timer);
    if (ended) return;
    if (polling) {
      again = true;
      return;
    }
    polling = true;
    let wait;
    try {
      await refresh();
      if (faults) hideBanner();
      faults = 0;
      wait = pause();
    } catch (problem) {
      wait = trouble(problem);
    }
    polling = false;
    if (!ended) render();
    if (again) {
      again = false;
      wait = Math.min(wait, 100);
    }
    if (!ended) timer = setTimeout(poll, wait);
  }

  // What a failed round means; returns how long to wait, in milliseconds.
  function trouble(problem) {
    if (ended) return 0;
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 404 && state.id) {
      banner("That conversation does not exist, or is not yours.");
      setAddress("");
      goTo("");
      return 2000;
    }
    faults += 1;
    const seconds = Math.min(2 ** faults, 30);
    const what = problem.status === 0 || problem.status >= 500 ? "The server cannot be reached just now." : problem.message;
    banner(`${what} Trying again in ${seconds} seconds; nothing that was sent is lost.`);
    return seconds * 1000;
  }

  function banner(words, ...more) {
    byId("banner").replaceChildren(words, ...more);
    show(byId("banner"), true);
  }

  function hideBanner() {
    show(byId("banner"), false);
  }

  function endSession() {
    ended = true;
    clearTimeout(timer);
    const here = encodeURIComponent(location.pathname + location.hash);
    banner("Your session has ended. ", el("a", { href: `${login}?next=${here}`, text: "Sign in again" }), "; what you are writing is kept.");
  }

  // --- Beginning
  const narrow = window.matchMedia("(max-width: 62rem)");

  function fold() {
    byId("list-fold").open = !narrow.matches;
    byId("beside-fold").open = !narrow.matches;
  }

  // On a narrow page there is room for one of the two.
  for (const [one, other] of [["list-fold", "beside-fold"], ["beside-fold", "list-fold"]]) {
    byId(one).addEventListener("toggle", () => {
      if (narrow.matches && byId(one).open) byId(other).open = false;
    });
  }
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  text.addEventListener("input", measure);
  byId("new").addEventListener("click", startNew);
  byId("new-after-close").addEventListener("click", startNew);
  byId("close").addEventListener("click", (event) => act("close", event.currentTarget));
  byId("stop").addEventListener("click", (event) => act("cancel", event.currentTarget));
  byId("retry").addEventListener("click", (event) => act("retry", event.currentTarget));
  byId("more-conversations").addEventListener("click", () => loadConversations(state.older).then(renderConversations, trouble));
  window.addEventListener("hashchange", fromAddress);
  window.addEventListener("popstate", fromAddress);
  window.addEventListener("online", poll);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    state.unseen = 0;
    titlePage();
    poll();
  });
  narrow.addEventListener("change", fold);
  scroll.addEventListener("scroll", () => { atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80; });
  new ResizeObserver(stayAtEnd).observe(scroll);
  fold();
  try {
    const kept = sessionStorage.getItem(DRAFT);
    if (kept && kept !== text.value) text.value = text.value ? `${kept}\n${text.value}` : kept;
  } catch {
    // A browser that keeps nothing.
  }
  byId("hint").textContent = "Enter sends, Shift and Enter begin a new line.";
  measure(); // from here on it can be sent
  state.id = /^#\d+$/.test(location.hash) ? location.hash.slice(1) : "";
  render();
  poll();
})();
