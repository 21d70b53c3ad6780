// What every view and part imports of Preact, in one place.

export { html } from "htm/preact";
export { Fragment, createRef } from "preact";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
