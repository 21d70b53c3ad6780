// The first line of the traffic: whether the log is whole. It is proven by reading all of it, and its seals.

import { post } from "../api.js";
import { useKeys } from "../keyboard.js";
import { Button } from "../ui/button.js";
import { clock, count, plural } from "../ui/format.js";
import { html, signal, useEffect } from "../ui/html.js";
import { toastError } from "../ui/toast.js";

const BY_ITSELF = 20000; // messages up to which the page has the proof made when it is opened; it takes a second
const AGAIN = 60000; // ms after which a proof is made again when the page is opened

const proof = signal(null); // {whole, compared, problems, erased, unsealed, away, at}
const running = signal(false);

async function verify() {
  if (running.value) return;
  running.value = true;
  try {
    const found = await post("/audit/verify");
    const problems = found.streams.flatMap((stream) => stream.problems);
    const sum = (of) => found.streams.reduce((total, stream) => total + of(stream), 0);
    const erased = sum((stream) => stream.erased), unsealed = sum((stream) => stream.last - stream.sealed);
    proof.value = { whole: found.whole, compared: found.compared, problems, erased, unsealed, away: found.streams.flatMap((stream) => stream.away), at: Date.now() };
  } catch (error) {
    toastError(error);
  } finally {
    running.value = false;
  }
}

export function Proof({ total, behind }) {
  useKeys({ v: { label: "verify that no message is missing", run: verify } });
  useEffect(() => {
    const old = !proof.value || Date.now() - proof.value.at > AGAIN;
    if (total > 0 && total <= BY_ITSELF && old) verify();
  }, [total > 0]);
  const { line, kind } = headline(total);
  const found = proof.value;
  return html`<h1 class=${kind} aria-live="polite">${line}</h1>
    <div class="meta">${found && html`<span>compared at <b>${clock(found.at)}</b></span>`}
      ${found && total > found.compared && html`<span>${plural(total - found.compared, "message")} since then</span>`}
      ${found?.erased > 0 && html`<span>${count(found.erased)} erased by order of people, on record</span>`}
      ${found?.unsealed > 0 && html`<span>${count(found.unsealed)} not sealed yet</span>`}
      ${found?.away.map((absence) => html`<span>Not compared: ${absence}</span>`)}
      ${behind > 0 && html`<span>${count(behind)} still being read</span>`}
      <${Button} kind="plain" keys="v" onClick=${verify} disabled=${running.value}>${running.value ? "Comparing every message …" : found ? "Verify again" : "Verify"}<//></div>
    ${found && !found.whole && html`<section class="problem" role="alert"><p><b>The log is not what was sealed.</b></p><ul>${found.problems.slice(0, 10).map((text) => html`<li>${text}</li>`)}</ul>
      <p><code>mailroom audit verify</code> lists all of it.</p></section>`}`;
}

function headline(total) {
  const found = proof.value;
  if (!found) return { line: total ? `${plural(total, "message")}, not compared yet` : "Traffic", kind: "" };
  if (found.whole) return { line: `Whole: ${plural(found.compared, "message")}, none missing`, kind: "whole" };
  return { line: `Not whole: ${plural(found.problems.length, "difference")}`, kind: "bad" };
}
