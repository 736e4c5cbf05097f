// The labelling widget in the browser. It shows what `lib.label_widget` hands over and sends back what was chosen: a
// label with its note in one message, so that neither arrives without the other.

const STYLE = `
.judge-labels { border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 4px;
  padding: 10px 14px; max-width: 60em; min-height: 26em; outline: none; }
.judge-labels:focus-within { border-color: #3b82c4; box-shadow: inset 0 0 0 1px #3b82c4; }
.judge-labels .bar { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 8px; }
.judge-labels progress { width: 16em; }
.judge-labels button { font: inherit; padding: 4px 12px; cursor: pointer; color: inherit; border-radius: 3px;
  background: transparent; border: 1px solid color-mix(in srgb, currentColor 45%, transparent); }
.judge-labels button.given { background: color-mix(in srgb, currentColor 15%, transparent); font-weight: 600; }
.judge-labels button:disabled { opacity: 0.4; cursor: default; }
.judge-labels input { font: inherit; flex: 1 1 24em; padding: 4px 6px; color: inherit; background: transparent;
  border: 1px solid color-mix(in srgb, currentColor 45%, transparent); border-radius: 3px; }
.judge-labels .error { color: #b3261e; font-weight: 600; margin-bottom: 8px; }
.judge-labels h4 { margin: 10px 0 0; font-weight: normal; opacity: 0.65; font-size: 90%; }
.judge-labels .text { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.45; }
.judge-labels .hint { opacity: 0.65; font-size: 90%; }
`;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function render({ model, el }) {
  // A list, for an object would put 0 first.
  const choices = model.get("choices");
  const keys = Object.fromEntries(choices);
  const progress = element("progress", {});
  const said = element("span", { className: "said" });
  const error = element("div", { className: "error" });
  const texts = element("div", {});
  const note = element("input", { type: "text", placeholder: "note, saved with the label" });
  // One message at a time: a second key before the next row is there would label a row that nobody has seen.
  let waiting = null;
  let chosen = -Infinity;
  const send = (message) => {
    if (waiting) return;
    // On a button, Enter or the space bar would choose again.
    box.focus({ preventScroll: true });
    waiting = setTimeout(() => {
      error.textContent = "Not saved yet: the kernel has not answered. Wait while it is busy; else run this cell again.";
    }, 5000);
    model.send({ ...message, turn: model.get("state").turn, note: note.value });
  };
  const choose = (label) => {
    // A double click is one choice, however quickly the next row is there.
    if (model.get("state").finished || performance.now() - chosen < 350) return;
    chosen = performance.now();
    send({ label });
  };
  const back = () => send({ back: true });

  const buttons = choices.map(([key, label]) =>
    element("button", { type: "button", textContent: `${key}: ${label.replace("_", " ")}`, onclick: () => choose(label) })
  );
  const backward = element("button", { type: "button", textContent: "b: back", onclick: back });
  const box = element(
    "div", { className: "judge-labels", tabIndex: 0 },
    element("style", { textContent: STYLE }),
    element("div", { className: "bar" }, progress, said),
    element("div", { className: "bar" }, ...buttons, backward),
    element("div", { className: "bar" }, note),
    error, texts,
    element("p", { className: "hint", textContent: "Keys work once you click on the box; Escape or Enter leaves the note." })
  );
  // JupyterLab would take 1 for a heading and b for a new cell.
  box.dataset.lmSuppressShortcuts = "true";
  box.addEventListener("keydown", (event) => {
    // Enter that ends the writing of a Chinese or Japanese word is not the note's end.
    if (event.isComposing) return;
    if (event.target === note) {
      if (event.key === "Escape" || event.key === "Enter") box.focus({ preventScroll: true });
      return;
    }
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in keys) choose(keys[event.key]);
    else if (event.key === "b") back();
    else return;
    event.preventDefault();
  });

  const show = () => {
    const state = model.get("state");
    clearTimeout(waiting);
    waiting = null;
    progress.max = state.total;
    progress.value = state.done;
    said.textContent = state.said;
    error.textContent = state.error;
    // What could not be saved is not lost: the note stays as it was written.
    if (!state.error) note.value = state.note;
    note.disabled = state.finished;
    buttons.forEach((button, place) => {
      button.disabled = state.finished;
      button.classList.toggle("given", choices[place][1] === state.label);
    });
    texts.replaceChildren(
      ...Object.entries(state.texts).flatMap(([name, text]) => [
        element("h4", { textContent: name }),
        element("div", { className: "text", textContent: text.trim() ? text : "(empty)" }),
      ])
    );
  };
  model.on("change:state", show);
  show();
  el.append(box);
}

export default { render };
