//! `chrome.*` and the few other things of the browser that are used, as thin externs of our own: the published
//! bindings lack `debugger`, `alarms` and `connectNative`. Values cross as JSON.

pub(crate) mod action;
pub(crate) mod debugger;
pub(crate) mod runtime;
pub(crate) mod storage;
pub(crate) mod tabs;
pub(crate) mod time;

use js_sys::{JSON, Promise, Reflect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::closure::{Closure, WasmClosure};
use wasm_bindgen::prelude::*;

/// What the browser said was wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ChromeError(pub(crate) String);

impl From<JsValue> for ChromeError {
    fn from(value: JsValue) -> Self {
        let message = Reflect::get(&value, &"message".into()).ok().and_then(|text| text.as_string());
        Self(message.or_else(|| value.as_string()).unwrap_or_else(|| "the browser gave no reason".into()))
    }
}

/// Waits for a call that has been made already.
pub(crate) async fn settle(call: Result<Promise, JsValue>) -> Result<JsValue, ChromeError> {
    Ok(call?.await?)
}

/// The same, and reads what came.
pub(crate) async fn fetch<T: DeserializeOwned>(call: Result<Promise, JsValue>) -> Result<T, ChromeError> {
    from_js(&settle(call).await?)
}

/// A value as JSON text; what has no JSON is `null`.
pub(crate) fn to_json(value: &JsValue) -> String {
    JSON::stringify(value).ok().and_then(|text| text.as_string()).unwrap_or_else(|| "null".to_owned())
}

/// Reads a value.
pub(crate) fn from_js<T: DeserializeOwned>(value: &JsValue) -> Result<T, ChromeError> {
    serde_json::from_str(&to_json(value)).map_err(|error| ChromeError(error.to_string()))
}

/// Makes a value.
pub(crate) fn to_js(value: &impl Serialize) -> JsValue {
    let text = serde_json::to_string(value).unwrap_or_default();
    parse(&text)
}

/// JSON text as a value.
pub(crate) fn parse(text: &str) -> JsValue {
    JSON::parse(text).unwrap_or(JsValue::UNDEFINED)
}

/// A listener that stays for as long as the worker or page lives.
pub(crate) fn forever<F: ?Sized + WasmClosure>(listener: Closure<F>) -> JsValue {
    listener.into_js_value()
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn console_error(message: &str);
    #[wasm_bindgen(js_namespace = console, js_name = warn)]
    pub(crate) fn warn(message: &str);
    #[wasm_bindgen(catch, js_namespace = ["navigator", "clipboard"], js_name = writeText)]
    pub(crate) fn write_clipboard(text: &str) -> Result<Promise, JsValue>;
    #[wasm_bindgen(catch, js_namespace = crypto, js_name = getRandomValues)]
    fn get_random_values(bytes: &mut [u8]) -> Result<JsValue, JsValue>;
}

/// Fresh random bytes. Without any there is no proof and no id, so the worker had better stop.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ChromeError> {
    let mut bytes = [0; N];
    get_random_values(&mut bytes)?;
    Ok(bytes)
}

/// Begins the worker anew after a panic, which leaves it unable to run anything; but not one that panics at
/// its start, over and over.
pub(crate) fn survive_panics() {
    std::panic::set_hook(Box::new(|panic| {
        console_error(&panic.to_string());
        if time::steady() > 60_000.0 {
            runtime::reload();
        }
    }));
}
