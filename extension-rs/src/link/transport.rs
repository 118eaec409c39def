//! The two ways to the hub, each as something that opens, brings messages and ends.

use consentry_wire::socket::NATIVE_HOST;
use wasm_bindgen::prelude::*;
use web_sys::{MessageEvent, WebSocket};

use super::status::Trouble;
use crate::chrome::runtime::{self, Port};
use crate::chrome::{self, ChromeError};

/// What a transport tells.
pub(super) enum Sign {
    Opened,
    Message(String),
    Ended(Trouble),
}

/// An open or opening connection. Dropping it closes it.
pub(super) enum Transport {
    Native { port: Port, _listeners: [Closure<dyn FnMut(JsValue)>; 2] },
    WebSocket { socket: WebSocket, _listeners: [Closure<dyn FnMut(JsValue)>; 3] },
}

impl Transport {
    /// Asks the browser to start the relay.
    pub(super) fn native(tell: impl Fn(Sign) + Clone + 'static) -> Result<Self, ChromeError> {
        let port = runtime::connect_native(NATIVE_HOST)?;
        let message = {
            let tell = tell.clone();
            Closure::new(move |message: JsValue| tell(Sign::Message(chrome::to_json(&message))))
        };
        let ended =
            Closure::new(move |_: JsValue| tell(Sign::Ended(Trouble::of_port(&runtime::last_error()))));
        port.on_message().add_listener(message.as_ref());
        port.on_disconnect().add_listener(ended.as_ref());
        Ok(Transport::Native { port, _listeners: [message, ended] })
    }

    /// Connects to the hub's port on this machine.
    pub(super) fn websocket(port: u16, tell: impl Fn(Sign) + Clone + 'static) -> Result<Self, ChromeError> {
        let socket = WebSocket::new(&format!("ws://127.0.0.1:{port}/extension"))?;
        let opened = {
            let tell = tell.clone();
            Closure::new(move |_: JsValue| tell(Sign::Opened))
        };
        let message = {
            let tell = tell.clone();
            Closure::new(move |event: JsValue| {
                if let Some(text) = event.unchecked_into::<MessageEvent>().data().as_string() {
                    tell(Sign::Message(text));
                }
            })
        };
        // The browser's close code is always the same: nothing can be read from it.
        let ended = Closure::new(move |_: JsValue| tell(Sign::Ended(Trouble::Unreachable { port })));
        socket.set_onopen(Some(opened.as_ref().unchecked_ref()));
        socket.set_onmessage(Some(message.as_ref().unchecked_ref()));
        socket.set_onclose(Some(ended.as_ref().unchecked_ref()));
        Ok(Transport::WebSocket { socket, _listeners: [opened, message, ended] })
    }

    /// Sends one message.
    pub(super) fn send(&self, message: &str) -> Result<(), ChromeError> {
        match self {
            Transport::Native { port, .. } => port.post_message(&chrome::parse(message))?,
            Transport::WebSocket { socket, .. } => socket.send_with_str(message)?,
        }
        Ok(())
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // One that has ended already throws, which changes nothing.
        let _ = match self {
            Transport::Native { port, .. } => port.disconnect(),
            Transport::WebSocket { socket, .. } => {
                socket.set_onopen(None);
                socket.set_onmessage(None);
                socket.set_onclose(None);
                socket.close()
            }
        };
    }
}
