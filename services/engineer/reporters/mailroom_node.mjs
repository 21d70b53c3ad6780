// A reporter of node:test that reports each test as it starts and ends, and the counts node:test prints.
import fs from 'node:fs';
import { resolve } from 'node:path';

const path = process.env.MAILROOM_TEST_EVENTS;
const write = (event) => fs.appendFileSync(path, JSON.stringify({ run: process.pid, ...event }) + '\n');
const counts = {};
const reported = new Set();
let lost = 0;

const isWholeFile = (data) => Boolean(data && data.file) && resolve(data.name) === data.file;

/** Whether a file has tests of node:test and none of them was told: it ended its process. */
function hasLostTests(file) {
  if (reported.has(file) || process.argv.some((word) => /^--test-(name-pattern|skip-pattern|only)/.test(word))) return false;
  try {
    const text = fs.readFileSync(file, 'utf8');
    return /['"]node:test['"]/.test(text) && /\b(test|it|describe|suite)\s*\(/.test(text);
  } catch {
    return false;
  }
}

function report(type, data) {
  const test = data && data.file ? `${data.file}:${data.line}: ${data.name}` : data && data.name;
  const whole = isWholeFile(data);
  if (data && data.file && !whole) reported.add(data.file);
  if (type === 'test:enqueue') {
    if (!whole) write({ event: 'collected', tests: [test] });
  } else if (type === 'test:start' || type === 'test:dequeue') {
    if (!whole) write({ event: 'start', test });
  } else if (type === 'test:pass' && whole && hasLostTests(data.file)) {
    lost += 1;
    write({ event: 'collected', tests: [data.file] });
    write({ event: 'start', test: data.file });
  } else if (type === 'test:pass' || type === 'test:fail') {
    const error = (data.details && data.details.error) || {};
    const cause = error.cause && typeof error.cause === 'object' ? error.cause : error;
    const nested = error.failureType === 'subtestsFailed';
    const failed = type === 'test:fail' && data.todo === undefined;
    write({
      event: 'end',
      test,
      name: data.name,
      // The counts come at the end: a test with subtests is counted or not, as the version of node has it.
      outcome: failed ? 'failed' : data.skip !== undefined || data.todo !== undefined ? 'skipped' : 'passed',
      message: failed && !nested ? String(cause.message || error.cause || '')
        : [data.skip, data.todo].find((reason) => typeof reason === 'string'),
      text: failed && !nested ? String(cause.stack || '').slice(-8000) : undefined,
      nested: nested || (data.details && data.details.type === 'suite') || undefined,
      place: data.file ? [data.file, data.line] : undefined,
    });
  } else if (type === 'test:diagnostic' && data.nesting === 0) {
    const match = /^(pass|fail|cancelled|skipped|todo) (\d+)$/.exec(data.message);
    if (match) counts[match[1]] = Number(match[2]);
  }
}

export default async function* reporter(source) {
  write({ event: 'runner', name: 'node:test' });
  for await (const { type, data } of source) report(type, data);
  if (Object.keys(counts).length > 0) {
    write({ event: 'counts', counts: { ...counts, pass: counts.pass - lost } });
    write({ event: 'done' });
  }
  yield '';
}
