//! `chrome.debugger`.

use js_sys::Promise;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = ["chrome", "debugger"])]
    pub(crate) fn attach(target: &JsValue, version: &str) -> Result<Promise, JsValue>;
    #[wasm_bindgen(catch, js_namespace = ["chrome", "debugger"])]
    pub(crate) fn detach(target: &JsValue) -> Result<Promise, JsValue>;
    #[wasm_bindgen(catch, js_namespace = ["chrome", "debugger"], js_name = sendCommand)]
    pub(crate) fn send_command(target: &JsValue, method: &str, params: &JsValue) -> Result<Promise, JsValue>;
    #[wasm_bindgen(catch, js_namespace = ["chrome", "debugger"], js_name = getTargets)]
    pub(crate) fn get_targets() -> Result<Promise, JsValue>;
    #[wasm_bindgen(js_namespace = ["chrome", "debugger", "onEvent"], js_name = addListener)]
    pub(crate) fn on_event(listener: &JsValue);
    #[wasm_bindgen(js_namespace = ["chrome", "debugger", "onDetach"], js_name = addListener)]
    pub(crate) fn on_detach(listener: &JsValue);
}
