# Has RSpec report each example as it starts and ends, beside the formatters that a project chose.
require 'json'

module Mailroom
  class Reporter
    EVENTS = %i[start example_started example_passed example_failed example_pending stop]

    def initialize
      @path, @expected, @ended = ENV['MAILROOM_TEST_EVENTS'], 0, 0
    end

    def write(**event)
      File.open(@path, 'a') { |file| file.puts(JSON.generate({ run: Process.pid, **event })) } if @path
    end

    def start(notification)
      @expected = notification.count
      write(event: 'runner', name: 'rspec')
    end

    def example_started(notification)
      write(event: 'start', test: notification.example.id)
    end

    def example_passed(notification)
      finish(notification.example, 'passed')
    end

    def example_pending(notification)
      finish(notification.example, 'skipped', message: notification.example.execution_result.pending_message.to_s)
    end

    def example_failed(notification)
      error = notification.example.exception
      text = Array(error && error.backtrace).join("\n")[0, 8000]
      finish(notification.example, 'failed', message: error.to_s[0, 8000], text: text)
    end

    def finish(example, outcome, **more)
      @ended += 1
      file, line = example.metadata.values_at(:absolute_file_path, :line_number)
      write(event: 'end', test: example.id, name: example.full_description, outcome: outcome, place: [file, line], **more)
    end

    # Also sent if an example ends the process by 'exit': then not all have ended.
    def stop(notification)
      write(event: 'done', counts: { left: @expected - @ended })
    end
  end
end

RSpec.configure { |config| config.reporter.register_listener(Mailroom::Reporter.new, *Mailroom::Reporter::EVENTS) }
