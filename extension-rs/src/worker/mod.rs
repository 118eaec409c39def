//! The service worker: it listens to the browser, and obeys the hub within what the guard allows.

mod calls;
mod ops;
mod start;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use consentry_wire::frame::{self, FromExtension, ToExtension};
use futures_util::lock::Mutex;
use js_sys::futures::spawn_local;
use serde_json::json;

use self::calls::Calls;
use crate::chrome::time::{Timer, moment};
use crate::chrome::{self, runtime};
use crate::debugger::Debugger;
use crate::guard::{Ended, Guard, Halt, Moment};
use crate::link::{Link, News};
use crate::ui::badge::Badge;
use crate::ui::snapshot::{GrantView, Order, Snapshot};

pub(crate) use ops::all_tabs;
pub(crate) use start::start;

/// How often what has run out is looked for.
const TICK_MS: f64 = 1_000.0;

/// Everything that one worker is.
pub(crate) struct Worker {
    /// A fresh one for each start.
    name: String,
    guard: Rc<RefCell<Guard>>,
    link: Link,
    debugger: Rc<Debugger>,
    calls: Calls,
    badge: Badge,
    ticker: RefCell<Option<Timer>>,
    /// When the last tick was.
    ticked: Cell<Moment>,
    configuring: Mutex<()>,
    reload_due: Cell<bool>,
    /// Itself, for what goes on after a call into it has ended.
    this: Weak<Worker>,
}

impl Worker {
    fn new(name: String) -> Rc<Self> {
        Rc::new_cyclic(|this: &Weak<Worker>| {
            let guard = Rc::new(RefCell::new(Guard::default()));
            let news = this.clone();
            let link = Link::new(move |told| {
                if let Some(worker) = news.upgrade() {
                    worker.told(told);
                }
            });
            let events = link.clone();
            let debugger = Debugger::new(Rc::clone(&guard), move |event| {
                events.send(frame::write(&FromExtension::Event(event)));
            });
            Worker {
                name,
                guard,
                link,
                debugger,
                calls: Calls::default(),
                badge: Badge::default(),
                ticker: RefCell::default(),
                ticked: Cell::new(moment()),
                configuring: Mutex::default(),
                reload_due: Cell::default(),
                this: this.clone(),
            }
        })
    }

    fn told(&self, news: News) {
        match news {
            News::Linked(welcome) => {
                let owed = self.guard.borrow_mut().welcome(welcome.ports);
                if let Some(halt) = owed {
                    self.send(&FromExtension::Event(halt.event()));
                }
            }
            News::Obey(frame) => self.obey(frame),
            News::Lost => {
                self.calls.drop_all();
                let ended = self.guard.borrow_mut().forget();
                self.enforce(&ended, || {});
            }
            News::Status => self.show_badge(),
        }
    }

    fn obey(&self, frame: ToExtension) {
        match frame {
            ToExtension::State(state) => {
                let epoch = state.epoch;
                let change = self.guard.borrow_mut().state(state, moment());
                let Ok(ended) = change else { return self.warn("a state came that is older than the last") };
                let link = self.link.clone();
                self.enforce(&ended, move || link.send(frame::write(&FromExtension::Ack { epoch })));
            }
            ToExtension::Call(call) => {
                let Some(this) = self.this.upgrade() else { return };
                calls::run(&this, call);
            }
            ToExtension::Cancel { id } => {
                self.calls.cancel(id);
                self.show_badge();
                self.reload_if_due();
            }
            ToExtension::Reload => {
                self.reload_due.set(true);
                self.reload_if_due();
            }
            // The link has dealt with these.
            ToExtension::Welcome(_) | ToExtension::Refused { .. } | ToExtension::Ping => {}
        }
    }

    /// Ends the calls of grants that ended and lets go of the tabs that nobody holds any more, then does the
    /// rest.
    fn enforce(&self, ended: &Ended, then: impl FnOnce() + 'static) {
        for answer in self.calls.end(&ended.grants) {
            self.send(&answer);
        }
        let Some(this) = self.this.upgrade() else { return };
        spawn_local(async move {
            this.debugger.let_go_of_unheld().await;
            then();
            this.show_badge();
        });
    }

    fn expire(&self) {
        let ended = self.guard.borrow_mut().expire(moment());
        if ended != Ended::default() {
            self.enforce(&ended, || {});
        }
    }

    /// The owner stops everything here. It ends at once; the hub is told now, or as soon as it is there.
    fn halt(&self, halt: Halt) {
        let ended = self.guard.borrow_mut().halt(halt);
        self.send(&FromExtension::Event(halt.event()));
        self.enforce(&ended, || {});
    }

    fn tick(&self) {
        let now = moment();
        // After a tick that came late the worker was busy, and states may wait to be taken: nothing runs on the old
        // one, but what it allowed is not let go of before they are.
        if now.since(self.ticked.replace(now)) < 2.0 * TICK_MS {
            self.expire();
        }
        self.link.tick();
        self.show_badge();
        let this = self.this.clone();
        let next = Timer::after(TICK_MS, move || {
            if let Some(worker) = this.upgrade() {
                worker.tick();
            }
        });
        // The one that is running now is dropped after its own end.
        if let Some(done) = self.ticker.replace(Some(next)) {
            spawn_local(async move { drop(done) });
        }
    }

    fn reload_if_due(&self) {
        if self.reload_due.get() && self.calls.count() == 0 {
            runtime::reload();
        }
    }

    fn show_badge(&self) {
        let held = self.guard.borrow().held().count();
        self.badge.show(self.link.is_linked(), held, self.calls.count());
    }

    fn send(&self, frame: &FromExtension) {
        self.link.send(frame::write(frame));
    }

    fn warn(&self, message: &str) {
        chrome::warn(message);
    }

    /// What the popup shows.
    fn snapshot(&self) -> Snapshot {
        let guard = self.guard.borrow();
        let grants = guard.grants(moment()).map(|(grant, left)| GrantView {
            label: grant.label.to_string(),
            client: grant.client.clone(),
            purpose: grant.purpose.clone(),
            left_ms: left,
            tabs: guard
                .held()
                .filter_map(|(tab, mut holders)| holders.any(|label| *label == grant.label).then_some(tab))
                .collect(),
        });
        Snapshot {
            status: self.link.status(),
            disabled: guard.disabled(),
            calls: self.calls.count(),
            grants: grants.collect(),
        }
    }

    /// Something that the popup or the options page asks for.
    fn order(&self, order: Order) -> serde_json::Value {
        match order {
            Order::Show => {}
            Order::Wake => self.link.wake(),
            Order::Stop => self.halt(Halt::Stop(frame::StopBy::Popup)),
            Order::DisableAll => self.halt(Halt::DisableAll),
            Order::OpenStatus => self.send(&FromExtension::Event(frame::Event::OpenStatus)),
        }
        json!(self.snapshot())
    }
}
