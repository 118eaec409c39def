//! Clocks and timers.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use wasm_bindgen::prelude::*;

use crate::guard::Moment;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &JsValue, milliseconds: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(id: &JsValue);
}

/// Milliseconds that are never set back.
pub(crate) fn steady() -> f64 {
    performance_now()
}

/// Both clocks.
pub(crate) fn moment() -> Moment {
    Moment { steady: performance_now(), wall: js_sys::Date::now() }
}

/// Does something later, unless it is dropped before.
pub(crate) struct Timer {
    id: JsValue,
    _callback: Closure<dyn FnMut()>,
}

impl Timer {
    pub(crate) fn after(milliseconds: f64, callback: impl FnOnce() + 'static) -> Self {
        let callback = Closure::once(callback);
        Self { id: set_timeout(callback.as_ref(), milliseconds), _callback: callback }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.id);
    }
}

/// Waits.
pub(crate) fn sleep(milliseconds: f64) -> Sleep {
    let state = Rc::new(RefCell::new(Waiting { over: false, waker: None }));
    let woken = Rc::clone(&state);
    let timer = Timer::after(milliseconds, move || {
        let waker = {
            let mut state = woken.borrow_mut();
            state.over = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    Sleep { state, _timer: timer }
}

/// A wait; dropping it takes its timer away.
pub(crate) struct Sleep {
    state: Rc<RefCell<Waiting>>,
    _timer: Timer,
}

struct Waiting {
    over: bool,
    waker: Option<Waker>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        if state.over {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
