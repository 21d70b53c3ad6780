// Requests to the gateway: JSON in and out, errors with cause and cure.

import { signedOut } from "./store.js";

const PREFIX = "/api/v1";

/** What a request that failed raises; `cause` and `cure` are sentences for a person. */
export class ApiError extends Error {
  constructor(status, title, cause, cure) {
    super(cause || title);
    this.name = "ApiError";
    this.status = status;
    this.title = title;
    this.cause = cause;
    this.cure = cure;
  }
}

/** A new idempotency key. A command that is sent again with the same key happens once. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The path of an address, each part of it encoded: at`/goals/${id}`. */
export function at(parts, ...values) {
  return parts.reduce((path, part, index) => path + encodeURIComponent(values[index - 1]) + part);
}

export function get(path, query = {}, { signal } = {}) {
  return request("GET", path, { query, signal });
}

export function post(path, body = {}, { key = newKey(), signal } = {}) {
  return request("POST", path, { body, key, signal });
}

export function remove(path, query = {}) {
  return request("DELETE", path, { query, key: newKey() });
}

/** The address of a path under the API, with a query; empty values are left out, lists repeated. */
export function address(path, query = {}) {
  const url = new URL(path.startsWith("/api/") ? path : PREFIX + path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) value.forEach((each) => url.searchParams.append(name, each));
    else if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function request(method, path, { query, body, key, signal }) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const options = { method, headers, signal, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) options.body = JSON.stringify(body);
  const answer = await fetch(address(path, query), options).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "No connection", "The office does not answer.", "Is it running? Start it with: mailroom up");
  });
  return answer.ok ? readBody(answer) : fail(answer);
}

async function readBody(answer) {
  if (answer.status === 204) return null;
  const type = answer.headers.get("Content-Type") || "";
  return type.includes("json") ? answer.json() : answer.text();
}

async function fail(answer) {
  if (answer.status === 401) signedOut.value = true;
  const problem = await answer.json().catch(() => ({}));
  const title = problem.title || `The office answered ${answer.status}`;
  throw new ApiError(answer.status, title, problem.detail || title, problem.cure || "");
}
