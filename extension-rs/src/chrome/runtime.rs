//! `chrome.runtime`, `chrome.alarms` and `chrome.management.getSelf`, which needs no permission.

use js_sys::{Promise, Reflect};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = ["chrome", "runtime"])]
    pub(crate) fn reload();
    #[wasm_bindgen(js_namespace = ["chrome", "runtime"], js_name = getManifest)]
    pub(crate) fn get_manifest() -> JsValue;
    #[wasm_bindgen(js_namespace = ["chrome", "runtime"], js_name = getURL)]
    pub(crate) fn get_url(path: &str) -> String;
    #[wasm_bindgen(catch, js_namespace = ["chrome", "runtime"], js_name = openOptionsPage)]
    pub(crate) fn open_options_page() -> Result<Promise, JsValue>;
    #[wasm_bindgen(catch, js_namespace = ["chrome", "runtime"], js_name = sendMessage)]
    pub(crate) fn send_message(message: &JsValue) -> Result<Promise, JsValue>;
    #[wasm_bindgen(catch, js_namespace = ["chrome", "runtime"], js_name = connectNative)]
    pub(crate) fn connect_native(host: &str) -> Result<Port, JsValue>;
    #[wasm_bindgen(thread_local_v2, js_namespace = ["chrome"], js_name = runtime)]
    static RUNTIME: JsValue;

    #[wasm_bindgen(js_namespace = ["chrome", "runtime", "onMessage"], js_name = addListener)]
    pub(crate) fn on_message(listener: &JsValue);
    #[wasm_bindgen(js_namespace = ["chrome", "runtime", "onStartup"], js_name = addListener)]
    pub(crate) fn on_startup(listener: &JsValue);
    #[wasm_bindgen(js_namespace = ["chrome", "runtime", "onInstalled"], js_name = addListener)]
    pub(crate) fn on_installed(listener: &JsValue);
    #[wasm_bindgen(js_namespace = ["chrome", "runtime", "onUpdateAvailable"], js_name = addListener)]
    pub(crate) fn on_update_available(listener: &JsValue);

    #[wasm_bindgen(catch, js_namespace = ["chrome", "alarms"], js_name = create)]
    pub(crate) fn create_alarm(name: &str, info: &JsValue) -> Result<Promise, JsValue>;
    #[wasm_bindgen(js_namespace = ["chrome", "alarms", "onAlarm"], js_name = addListener)]
    pub(crate) fn on_alarm(listener: &JsValue);

    #[wasm_bindgen(catch, js_namespace = ["chrome", "management"], js_name = getSelf)]
    pub(crate) fn get_self() -> Result<Promise, JsValue>;

    /// An end of a native-messaging connection.
    pub(crate) type Port;
    /// Throws once the port has ended.
    #[wasm_bindgen(method, catch, js_name = postMessage)]
    pub(crate) fn post_message(this: &Port, message: &JsValue) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn disconnect(this: &Port) -> Result<(), JsValue>;
    #[wasm_bindgen(method, getter, js_name = onMessage)]
    pub(crate) fn on_message(this: &Port) -> PortEvent;
    #[wasm_bindgen(method, getter, js_name = onDisconnect)]
    pub(crate) fn on_disconnect(this: &Port) -> PortEvent;

    /// Something that a port tells.
    pub(crate) type PortEvent;
    #[wasm_bindgen(method, js_name = addListener)]
    pub(crate) fn add_listener(this: &PortEvent, listener: &JsValue);
}

/// Why a port ended; only to be had in its own `onDisconnect`.
pub(crate) fn last_error() -> String {
    let error = RUNTIME.with(|runtime| Reflect::get(runtime, &"lastError".into()));
    let message = error.and_then(|error| Reflect::get(&error, &"message".into()));
    message.ok().and_then(|message| message.as_string()).unwrap_or_else(|| "the relay ended".to_owned())
}
