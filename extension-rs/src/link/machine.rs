//! One connection, from its opening to its end, as a pure machine: what came goes in, what to do comes out.
//!
//! ```text
//! WebSocket  opening → proving → greeting → linked
//! native     opening → (hub gone ⇄) greeting → linked;  hub gone from anywhere
//! ```
//!
//! Invariants: no frame is obeyed before `welcome`, nothing about this browser is said before the hub proved
//! itself, and every way out of `linked` says [`Action::Lost`].

use consentry_wire::chunk::Joiner;
use consentry_wire::frame::{self, FromExtension, FromRelay, Hello, ToExtension, Welcome};
use consentry_wire::proof::{Caller, Handshake, NONCE_BYTES, Token};
use consentry_wire::{ErrorCode, Failure};
use serde_json::Value;

use super::status::{Trouble, Via};

/// Longest wait for the hub's part of the opening.
const OPENING_MS: f64 = 10_000.0;

/// The hub speaks every 2 s; this long without a word, the connection is dead.
const SILENCE_MS: f64 = 30_000.0;

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Send this.
    Send(String),
    /// The hub took the link.
    Linked(Welcome),
    /// Obey this frame.
    Obey(ToExtension),
    /// The hub is gone, the relay waits for it: `hello` follows when it is back.
    HubGone(String),
    /// The link that stood no longer does: let go of everything.
    Lost,
    /// End the connection.
    Close(Trouble),
}

#[derive(Debug)]
enum Phase {
    Opening,
    Proving(Caller),
    HubGone,
    Greeting,
    Linked,
    Over,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Machine {
    via: Via,
    port: u16,
    phase: Phase,
    joiner: Joiner,
    /// When the hub last said something, or the phase began.
    heard: f64,
}

impl Machine {
    /// A connection that is being opened. `now` is any steady clock, in milliseconds.
    pub(crate) fn new(via: Via, port: u16, now: f64) -> Self {
        Self { via, port, phase: Phase::Opening, joiner: Joiner::default(), heard: now }
    }

    /// Whether the hub has taken the link.
    pub(crate) fn is_linked(&self) -> bool {
        matches!(self.phase, Phase::Linked)
    }

    /// Whether anything has ever come through.
    pub(crate) fn has_spoken(&self) -> bool {
        !matches!(self.phase, Phase::Opening)
    }

    /// The WebSocket is open: the hub has to prove itself first. A native port has nothing to be opened.
    pub(crate) fn opened(&mut self, token: &str, random: [u8; NONCE_BYTES], now: f64) -> Vec<Action> {
        if !matches!((self.via, &self.phase), (Via::WebSocket, Phase::Opening)) {
            return Vec::new();
        }
        self.heard = now;
        let Some(token) = Token::new(token) else { return self.close(Trouble::NoToken) };
        let (caller, challenge) = Caller::start(token, random);
        self.phase = Phase::Proving(caller);
        vec![Action::Send(frame::write(&challenge))]
    }

    /// One message came.
    pub(crate) fn message(&mut self, message: String, hello: &Hello, now: f64) -> Vec<Action> {
        self.heard = now;
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => Vec::new(),
            Phase::Proving(caller) => self.prove(caller, &message, hello),
            phase => {
                self.phase = phase;
                // The relay speaks between whatever pieces the hub left unfinished.
                match (self.via == Via::Native).then(|| relay(&message)).flatten() {
                    Some(word) => self.relayed(word, hello),
                    None => self.piece(message),
                }
            }
        }
    }

    fn prove(&mut self, caller: Caller, message: &str, hello: &Hello) -> Vec<Action> {
        let wrong = Trouble::WrongToken { port: self.port };
        let Ok(answer) = frame::read::<Handshake>(message) else {
            // A hub may say in words why it will not talk.
            return match frame::read::<ToExtension>(message) {
                Ok(ToExtension::Refused { error }) => self.close(refusal(error, self.port)),
                _ => self.close(wrong),
            };
        };
        match caller.finish(&answer) {
            Err(_) => self.close(wrong),
            Ok(response) => {
                self.phase = Phase::Greeting;
                vec![Action::Send(frame::write(&response)), greet(hello)]
            }
        }
    }

    fn relayed(&mut self, word: FromRelay, hello: &Hello) -> Vec<Action> {
        self.joiner = Joiner::default();
        let mut actions = self.lost();
        match word {
            FromRelay::HubHere => {
                self.phase = Phase::Greeting;
                actions.push(greet(hello));
            }
            FromRelay::HubGone { reason } => {
                self.phase = Phase::HubGone;
                actions.push(Action::HubGone(reason));
            }
        }
        actions
    }

    fn piece(&mut self, message: String) -> Vec<Action> {
        match self.joiner.push(message) {
            Err(error) => self.close(Trouble::Broken { reason: error.to_string() }),
            Ok(None) => Vec::new(),
            Ok(Some(whole)) => self.frame(&whole),
        }
    }

    fn frame(&mut self, text: &str) -> Vec<Action> {
        let read = frame::read::<ToExtension>(text);
        match (&self.phase, read) {
            (Phase::Greeting, Ok(ToExtension::Welcome(welcome))) => {
                if let Err(error) = welcome.version.check("hub") {
                    return self.close(Trouble::Refused { error });
                }
                self.phase = Phase::Linked;
                vec![Action::Linked(welcome)]
            }
            (Phase::Greeting | Phase::Linked, Ok(ToExtension::Refused { error })) => {
                self.close(refusal(error, self.port))
            }
            (Phase::Linked, Ok(ToExtension::Welcome(_))) => Vec::new(),
            (Phase::Linked, Ok(ToExtension::Ping)) => {
                vec![Action::Send(frame::write(&FromExtension::Pong))]
            }
            (Phase::Linked, Ok(frame)) => vec![Action::Obey(frame)],
            (Phase::Linked, Err(error)) => misread(text, &error.to_string()),
            // What comes before the hub has proved itself and taken the link is not even answered.
            _ => Vec::new(),
        }
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, now: f64) -> Vec<Action> {
        let (limit, reason) = match (&self.phase, self.via) {
            (Phase::Over | Phase::HubGone, _) | (Phase::Opening, Via::Native) => return Vec::new(),
            (Phase::Opening, Via::WebSocket) => (OPENING_MS, Trouble::Unreachable { port: self.port }),
            (Phase::Proving(_) | Phase::Greeting, _) => {
                (OPENING_MS, Trouble::Broken { reason: "the hub did not answer".into() })
            }
            (Phase::Linked, _) => (SILENCE_MS, Trouble::Broken { reason: "the hub went silent".into() }),
        };
        if now - self.heard < limit { Vec::new() } else { self.close(reason) }
    }

    /// The transport ended.
    pub(crate) fn ended(&mut self) -> Vec<Action> {
        let actions = self.lost();
        self.phase = Phase::Over;
        actions
    }

    fn close(&mut self, trouble: Trouble) -> Vec<Action> {
        let mut actions = self.ended();
        actions.push(Action::Close(trouble));
        actions
    }

    fn lost(&self) -> Vec<Action> {
        if self.is_linked() { vec![Action::Lost] } else { Vec::new() }
    }
}

fn greet(hello: &Hello) -> Action {
    Action::Send(frame::write(&FromExtension::Hello(hello.clone())))
}

fn relay(message: &str) -> Option<FromRelay> {
    if !message.starts_with("{\"type\":\"hub_") {
        return None;
    }
    frame::read(message).ok()
}

fn refusal(error: Failure, port: u16) -> Trouble {
    if error.code == ErrorCode::WrongProof {
        Trouble::WrongToken { port }
    } else {
        Trouble::Refused { error }
    }
}

/// A frame of a newer hub: a call at least is answered, so that nobody waits for it.
fn misread(text: &str, error: &str) -> Vec<Action> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    match value["id"].as_u64() {
        Some(id) if value["type"] == "call" => {
            let error = Failure::new(ErrorCode::BadFrame, error);
            vec![Action::Send(frame::write(&FromExtension::Failed { id, error }))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "machine/tests.rs"]
mod tests;
