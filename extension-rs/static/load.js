// Decodes and starts the WebAssembly without a turn of the event loop in between: a service worker hears
// the event that woke it only through listeners that stand by then.
import { initSync } from "./consentry.js";
import base64 from "./wasm.js";

const bytes = Uint8Array.fromBase64?.(base64) ?? Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
initSync({ module: bytes });
