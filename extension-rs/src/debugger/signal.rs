//! Tells those who wait for an answer that a page went elsewhere: some commands are then never answered.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Something that happens again and again.
#[derive(Default)]
pub(super) struct Signal {
    count: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// It happened: everybody who waits looks again.
    pub(super) fn fire(&self) {
        self.count.set(self.count.get() + 1);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits until `ask` gives something; it is asked each time it happens.
    pub(super) async fn until<T>(&self, mut ask: impl FnMut() -> Option<T>) -> T {
        let mut seen = self.count.get();
        loop {
            poll_fn(|context| {
                if self.count.get() != seen {
                    return Poll::Ready(());
                }
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            })
            .await;
            seen = self.count.get();
            if let Some(answer) = ask() {
                return answer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn it_is_asked_only_when_something_happened() {
        let (signal, asked) = (Signal::default(), Cell::new(0));
        let mut waits = std::pin::pin!(signal.until(|| {
            asked.set(asked.get() + 1);
            (asked.get() == 2).then_some("now")
        }));
        assert_eq!((waits.as_mut().now_or_never(), asked.get()), (None, 0));
        signal.fire();
        assert_eq!((waits.as_mut().now_or_never(), asked.get()), (None, 1));
        signal.fire();
        assert_eq!(waits.as_mut().now_or_never(), Some("now"));
    }
}
