//! Which way to try, and when to try again.

use super::backoff::Backoff;
use super::settings::{Settings, Transport};
use super::status::{Status, Trouble, Via};

/// Remembers what was tried.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    backoff: Backoff,
    /// Why native messaging did not work in this round, when WebSocket is being tried instead.
    native: Option<Trouble>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Try the other way at once.
    Now(Via),
    /// Say what is wrong, and begin anew after so many milliseconds.
    Later(Status, f64),
}

impl Plan {
    /// The way that a round begins with.
    pub(crate) fn begin(&mut self, settings: &Settings) -> Via {
        self.native = None;
        if settings.transport == Transport::WebSocket { Via::WebSocket } else { Via::Native }
    }

    /// A hub took the link.
    pub(crate) fn linked(&mut self) {
        self.backoff.reset();
    }

    /// One way did not work. `spoke`: something answered there before it ended.
    pub(crate) fn failed(
        &mut self,
        via: Via,
        trouble: Trouble,
        spoke: bool,
        settings: &Settings,
        random: f64,
    ) -> Next {
        let both = settings.transport == Transport::Auto && !settings.token.is_empty();
        if via == Via::Native && both && !spoke {
            self.native = Some(trouble);
            return Next::Now(Via::WebSocket);
        }
        // With neither way open, the owner is told of the one that needs no token.
        let native = self.native.take().filter(|_| matches!(trouble, Trouble::Unreachable { .. }));
        let told = native.unwrap_or(trouble);
        if told.lasts() {
            self.backoff.settle();
        }
        Next::Later(Status::Down { trouble: told }, self.backoff.next(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(transport: Transport, token: &str) -> Settings {
        Settings { transport, token: token.into(), ..Settings::default() }
    }

    #[test]
    fn native_goes_first_and_websocket_second_only_where_there_is_a_token() {
        let auto = settings(Transport::Auto, "token");
        let mut plan = Plan::default();
        assert_eq!(plan.begin(&auto), Via::Native);
        assert_eq!(
            plan.failed(Via::Native, Trouble::HostMissing, false, &auto, 1.0),
            Next::Now(Via::WebSocket)
        );
        let unreachable = Trouble::Unreachable { port: 1 };
        let Next::Later(Status::Down { trouble }, _) =
            plan.failed(Via::WebSocket, unreachable, false, &auto, 1.0)
        else {
            panic!()
        };
        assert_eq!(trouble, Trouble::HostMissing);

        let bare = settings(Transport::Auto, "");
        let later = plan.failed(Via::Native, Trouble::HostMissing, false, &bare, 1.0);
        assert_eq!(later, Next::Later(Status::Down { trouble: Trouble::HostMissing }, 15_000.0));
    }

    #[test]
    fn a_relay_that_was_there_is_tried_again_and_forced_ways_stay() {
        let auto = settings(Transport::Auto, "token");
        let ended = || Trouble::HostEnded { reason: "it exited".into() };
        let mut plan = Plan::default();
        assert!(matches!(plan.failed(Via::Native, ended(), true, &auto, 1.0), Next::Later(_, 250.0)));
        let forced = settings(Transport::Native, "token");
        assert!(matches!(plan.failed(Via::Native, ended(), false, &forced, 1.0), Next::Later(_, 500.0)));
        assert_eq!(plan.begin(&settings(Transport::WebSocket, "")), Via::WebSocket);
    }
}
