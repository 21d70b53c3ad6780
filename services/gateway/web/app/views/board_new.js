// The form for a new goal.

import { newKey, post } from "../api.js";
import { Dialog } from "../ui/dialog.js";
import { html, useRef, useState } from "../ui/html.js";
import { toast } from "../ui/toast.js";

const PRIORITIES = [["LOW", "low"], ["MEDIUM", "as usual"], ["HIGH", "high"], ["URGENT", "urgent"]];

export function NewGoal({ onClose, onCreated }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const key = useRef(newKey()); // of this form: sent twice it is still one goal
  const submit = async (event) => {
    event.preventDefault();
    const fields = event.target.elements;
    const [context, wrong] = parseContext(fields.context.value);
    if (wrong) return setError({ message: wrong });
    const deadline = fields.deadline.value ? new Date(fields.deadline.value).toISOString() : "";
    setBusy(true);
    try {
      const { goal_id: id } = await post("/goals", { text: fields.text.value.trim(), priority: fields.priority.value, deadline, context }, { key: key.current });
      toast("Submitted. The conductor plans it now.");
      onCreated(id);
      onClose();
    } catch (refused) {
      setError(refused);
      setBusy(false);
      if (refused.status) key.current = newKey(); // it was refused; what is sent next is another goal
    }
    return undefined;
  };
  const sendByKey = (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && event.target.form.requestSubmit();
  return html`<${Dialog} title="New goal" onClose=${onClose}><form class="newgoal" onSubmit=${submit} onKeyDown=${sendByKey}>
    <label>What do you want done?<textarea name="text" required autofocus maxlength="100000" rows="5" placeholder="Check up on the repository at /srv/mine"></textarea></label>
    <details><summary>Priority, deadline, context</summary><div class="more">
      <label>Priority<select name="priority">${PRIORITIES.map(([value, word]) => html`<option key=${value} value=${value} selected=${value === "MEDIUM"}>${word}</option>`)}</select></label>
      <label>Deadline<input name="deadline" type="datetime-local" /></label>
      <label class="wide">Context, one name=value in a line; name:=value for a number or other JSON<textarea name="context" rows="3" class="mono" placeholder="assignee=engineer&#10;action=git_log&#10;repo=/srv/mine&#10;limit:=3"></textarea></label></div></details>
    ${error && html`<p class="bad" role="alert">${error.cause || error.message} ${error.cure}</p>`}
    <div class="actions"><button type="button" onClick=${onClose}>Not now</button><button class="primary" disabled=${busy}>Submit<kbd>Ctrl ↵</kbd></button></div></form><//>`;
}

/** The context that lines of name=value and name:=JSON give, as in the command, and what is wrong with it. */
export function parseContext(text) {
  const context = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return [context, `“${line.slice(0, 60)}” is not of the form name=value.`];
    const isJson = line[at - 1] === ":";
    const [name, value] = [line.slice(0, isJson ? at - 1 : at).trim(), line.slice(at + 1).trim()];
    if (!name) return [context, `“${line.slice(0, 60)}” has no name.`];
    try {
      context[name] = isJson ? JSON.parse(value) : value;
    } catch {
      return [context, `“${value.slice(0, 60)}” is not JSON; write ${name}=… if it is text.`];
    }
  }
  return [context, ""];
}
