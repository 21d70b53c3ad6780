// What a view reads from the API: once, again on demand, and again when something happens that concerns it.

import { onEvents, onReset } from "../live.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

/**
 * The answer of `load(signal)`, read again when `inputs` change: {data, error, loading, reload}. While it is read again the
 * answer before stays; an answer that comes too late is dropped.
 */
export function useResource(load, inputs = []) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const running = useRef(null);
  const reload = useCallback(async () => {
    running.current?.abort();
    const control = (running.current = new AbortController());
    setState((before) => ({ ...before, loading: true }));
    try {
      const data = await load(control.signal);
      if (running.current === control) setState({ data, error: null, loading: false });
    } catch (error) {
      if (running.current === control && error.name !== "AbortError") setState((before) => ({ ...before, error, loading: false }));
    }
  }, inputs);
  useEffect(() => {
    reload();
    return () => running.current?.abort();
  }, [reload]);
  return { ...state, reload };
}

/** As useResource, and read again (at most once in `pause` ms) after an event for which `concerns(event)` holds. */
export function useLiveResource(load, inputs, concerns, pause = 400) {
  const resource = useResource(load, inputs);
  const current = useRef(null);
  current.current = { concerns, reload: resource.reload };
  useEffect(() => {
    let due = 0;
    const later = () => {
      due ||= setTimeout(() => {
        due = 0;
        current.current.reload();
      }, pause);
    };
    const ends = [onEvents((events) => events.some((event) => current.current.concerns(event)) && later()), onReset(later)];
    return () => {
      clearTimeout(due);
      ends.forEach((end) => end());
    };
  }, []);
  return resource;
}
