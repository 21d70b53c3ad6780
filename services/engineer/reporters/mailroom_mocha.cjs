// Mocha's spec reporter, which also reports each test as it starts and ends.
'use strict';

const fs = require('fs');
const mocha = require(require.resolve('mocha', { paths: [process.cwd()] }));

const path = process.env.MAILROOM_TEST_EVENTS;
const write = (event) => fs.appendFileSync(path, JSON.stringify({ run: process.pid, ...event }) + '\n');

class Reporter extends mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    write({ event: 'runner', name: 'mocha' });
    runner.on('start', () => {
      const tests = [];
      runner.suite.eachTest((test) => {
        // As the runner itself chooses them by --grep and --invert.
        if (runner._grep.test(test.fullTitle()) !== Boolean(runner._invert)) tests.push(test.fullTitle());
      });
      write({ event: 'collected', tests });
    });
    runner.on('test', (test) => write({ event: 'start', test: test.fullTitle() }));
    runner.on('pass', (test) => write({ event: 'end', test: test.fullTitle(), outcome: 'passed' }));
    runner.on('pending', (test) => write({ event: 'end', test: test.fullTitle(), outcome: 'skipped' }));
    runner.on('fail', (test, error) => write({
      event: 'end',
      test: test.fullTitle(),
      outcome: 'failed',
      message: String((error && error.message) || error),
      text: String((error && error.stack) || '').slice(-8000),
    }));
    runner.on('end', () => write({ event: 'done' }));
  }
}

module.exports = Reporter;
