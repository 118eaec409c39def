//! The link to the hub: native messaging or WebSocket, made again without end.

mod backoff;
mod machine;
mod plan;
pub(crate) mod settings;
pub(crate) mod status;
mod transport;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use consentry_wire::chunk;
use consentry_wire::frame::{Hello, ToExtension, Welcome};

use self::machine::{Action, Machine};
use self::plan::{Next, Plan};
use self::settings::Settings;
use self::status::{Status, Trouble, Via};
use self::transport::{Sign, Transport};
use crate::chrome::time::{Timer, steady};
use crate::chrome::{self, ChromeError};

/// What the link tells.
pub(crate) enum News {
    /// A hub took the link.
    Linked(Welcome),
    /// A frame to obey.
    Obey(ToExtension),
    /// The link that stood no longer does.
    Lost,
    /// The status changed.
    Status,
}

/// The link.
#[derive(Clone)]
pub(crate) struct Link(Rc<Inner>);

struct Inner {
    tell: Box<dyn Fn(News)>,
    /// What it is made with; `None` until storage has been read.
    with: RefCell<Option<(Settings, Hello)>>,
    plan: RefCell<Plan>,
    status: RefCell<Status>,
    connection: RefCell<Option<Connection>>,
    retry: RefCell<Option<Timer>>,
    /// Counts connections: what an old one still tells is not heard.
    count: Cell<u64>,
}

struct Connection {
    via: Via,
    machine: Machine,
    transport: Rc<Transport>,
}

impl Link {
    /// A link that tells its news to `tell`. It begins with [`Link::configure`].
    pub(crate) fn new(tell: impl Fn(News) + 'static) -> Self {
        Self(Rc::new(Inner {
            tell: Box::new(tell),
            with: RefCell::default(),
            plan: RefCell::default(),
            status: RefCell::default(),
            connection: RefCell::default(),
            retry: RefCell::default(),
            count: Cell::default(),
        }))
    }

    /// Links with these settings; a link made with others is ended.
    pub(crate) fn configure(&self, settings: Settings, hello: Hello) {
        let with = Some((settings, hello));
        if *self.0.with.borrow() == with {
            return;
        }
        *self.0.with.borrow_mut() = with;
        *self.0.plan.borrow_mut() = Plan::default();
        let linked = self.is_linked();
        self.drop_connection();
        if linked {
            (self.0.tell)(News::Lost);
        }
        self.begin();
    }

    /// How it stands.
    pub(crate) fn status(&self) -> Status {
        self.0.status.borrow().clone()
    }

    /// Whether a hub has taken the link.
    pub(crate) fn is_linked(&self) -> bool {
        self.0.connection.borrow().as_ref().is_some_and(|connection| connection.machine.is_linked())
    }

    /// Sends a frame, if the link stands.
    pub(crate) fn send(&self, frame: String) {
        if self.is_linked() {
            self.transmit(frame);
        }
    }

    /// A second has passed.
    pub(crate) fn tick(&self) {
        self.with_machine(|machine| machine.tick(steady()));
    }

    /// Tries now if nothing is being tried: whatever woke the worker, the wait may have been lost with it.
    pub(crate) fn wake(&self) {
        let idle = self.0.connection.borrow().is_none() && self.0.with.borrow().is_some();
        if idle {
            self.begin();
        }
    }

    fn begin(&self) {
        self.0.retry.replace(None);
        let via = {
            let with = self.0.with.borrow();
            let Some((settings, _)) = with.as_ref() else { return };
            self.0.plan.borrow_mut().begin(settings)
        };
        self.connect(via);
    }

    fn connect(&self, via: Via) {
        let Some((port, has_token)) =
            self.0.with.borrow().as_ref().map(|(settings, _)| (settings.port, !settings.token.is_empty()))
        else {
            return;
        };
        if via == Via::WebSocket && !has_token {
            return self.failed(via, Trouble::NoToken, false);
        }
        let count = self.0.count.get() + 1;
        self.0.count.set(count);
        let link = Rc::downgrade(&self.0);
        let tell = move |sign| {
            if let Some(inner) = link.upgrade().filter(|inner| inner.count.get() == count) {
                Link(inner).heard(sign);
            }
        };
        let transport = match via {
            Via::Native => Transport::native(tell),
            Via::WebSocket => Transport::websocket(port, tell),
        };
        match transport {
            Ok(transport) => {
                let machine = Machine::new(via, port, steady());
                let transport = Rc::new(transport);
                *self.0.connection.borrow_mut() = Some(Connection { via, machine, transport });
            }
            Err(ChromeError(reason)) => self.failed(via, Trouble::Broken { reason }, false),
        }
    }

    fn heard(&self, sign: Sign) {
        match sign {
            Sign::Opened => {
                let token = self.0.with.borrow().as_ref().map(|(settings, _)| settings.token.clone());
                match chrome::random() {
                    Ok(random) => self
                        .with_machine(|machine| machine.opened(&token.unwrap_or_default(), random, steady())),
                    Err(ChromeError(reason)) => self.close(Trouble::Broken { reason }),
                }
            }
            Sign::Message(message) => {
                let Some(hello) = self.0.with.borrow().as_ref().map(|(_, hello)| hello.clone()) else {
                    return;
                };
                self.with_machine(|machine| machine.message(message, &hello, steady()));
            }
            Sign::Ended(trouble) => {
                let spoke = self
                    .0
                    .connection
                    .borrow()
                    .as_ref()
                    .is_some_and(|connection| connection.machine.has_spoken());
                self.with_machine(Machine::ended);
                let trouble = match trouble {
                    Trouble::Unreachable { .. } if spoke => {
                        Trouble::Broken { reason: "the hub ended the link".into() }
                    }
                    other => other,
                };
                self.close(trouble);
            }
        }
    }

    fn with_machine(&self, step: impl FnOnce(&mut Machine) -> Vec<Action>) {
        let actions = match self.0.connection.borrow_mut().as_mut() {
            Some(connection) => step(&mut connection.machine),
            None => return,
        };
        for action in actions {
            self.act(action);
        }
    }

    fn act(&self, action: Action) {
        match action {
            Action::Send(text) => self.transmit(text),
            Action::Linked(welcome) => {
                self.0.plan.borrow_mut().linked();
                let via = self.0.connection.borrow().as_ref().map_or(Via::Native, |link| link.via);
                let (machine, build) = (welcome.machine.clone(), welcome.build.clone());
                (self.0.tell)(News::Linked(welcome));
                self.set_status(Status::Linked { via, machine, build });
            }
            Action::Obey(frame) => (self.0.tell)(News::Obey(frame)),
            Action::HubGone(reason) => self.set_status(Status::HubGone { reason }),
            Action::Lost => (self.0.tell)(News::Lost),
            Action::Close(trouble) => self.close(trouble),
        }
    }

    fn transmit(&self, frame: String) {
        let transport = self.0.connection.borrow().as_ref().map(|link| Rc::clone(&link.transport));
        let Some(transport) = transport else { return };
        for piece in chunk::split(frame) {
            // One that has just ended throws; its end is told by an event of its own.
            if transport.send(&piece).is_err() {
                return;
            }
        }
    }

    fn close(&self, trouble: Trouble) {
        let Some((via, spoke)) = self
            .0
            .connection
            .borrow()
            .as_ref()
            .map(|connection| (connection.via, connection.machine.has_spoken()))
        else {
            return;
        };
        self.drop_connection();
        self.failed(via, trouble, spoke);
    }

    /// What is closed may be what is just now being heard, so its listeners go only after that.
    fn drop_connection(&self) {
        self.0.count.set(self.0.count.get() + 1);
        self.0.retry.replace(None);
        if let Some(connection) = self.0.connection.borrow_mut().take() {
            js_sys::futures::spawn_local(async move { drop(connection) });
        }
    }

    fn failed(&self, via: Via, trouble: Trouble, spoke: bool) {
        let next = {
            let with = self.0.with.borrow();
            let Some((settings, _)) = with.as_ref() else { return };
            let random = js_sys::Math::random();
            self.0.plan.borrow_mut().failed(via, trouble, spoke, settings, random)
        };
        match next {
            Next::Now(via) => self.connect(via),
            Next::Later(status, milliseconds) => {
                let link = self.clone();
                let timer = Timer::after(milliseconds, move || link.wake());
                self.0.retry.replace(Some(timer));
                self.set_status(status);
            }
        }
    }

    fn set_status(&self, status: Status) {
        self.0.status.replace(status);
        (self.0.tell)(News::Status);
    }
}
