//! The relay between a browser's native messaging and the hub's socket: a pipe.
//!
//! The browser starts it with a pipe on standard input and one on standard output, and with the extension's
//! origin as its only argument. It connects to the hub beside it, again after each restart of the hub, and
//! passes the extension's frames on unread: a native frame here is a line there.
//!
//! Two threads that block, and no more. The main thread owns standard input, and its end is the program's
//! end. The other owns standard output and the socket's life.
//!
//! Invariants:
//! - What answers on the socket is told nothing but a nonce until it proved that it holds the token, and
//!   nothing of it reaches the extension before that. Each connection proves itself anew.
//! - A frame is passed on at once or dropped. None is kept for a hub that comes later: an act that was meant
//!   for one hub must not happen under the next.
//! - Each direction holds one frame. A peer that does not read stops the other peer, not this program's
//!   memory.
//! - A malformed frame is dropped with a note; only the end of standard input, or of standard output, ends
//!   the program. Nobody kills it after its browser has gone.
//!
//! It must never decide anything: what a frame asks for is the hub's and the extension's business.

mod browser;
mod frame;
mod hub;
mod line;
mod link;
mod native;
mod note;
mod place;
mod platform;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, bail};

use crate::link::Slot;
use crate::note::note;
use crate::place::Place;

/// Enough for one buffered reader and a JSON check, which does not recurse.
const LINK_STACK: usize = 256 * 1024;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    // A relay with one thread would look alive to the browser and carry nothing: better that the browser
    // sees it end and the extension starts another.
    std::panic::set_hook(Box::new(|panic| {
        note(format_args!("{panic}"));
        process::exit(101);
    }));

    let origin = origin(std::env::args_os().nth(1).and_then(|arg| arg.into_string().ok()))?;
    let place = Place::of_this_program()?;
    // A file of its own: the standard library's handle would cut what is written at each line break.
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().context("open standard output")?);

    let slot = Arc::new(Slot::default());
    let theirs = Arc::clone(&slot);
    thread::Builder::new()
        .name("hub".to_owned())
        .stack_size(LINK_STACK)
        .spawn(move || {
            // It returns when the browser no longer reads, which is the browser's end.
            link::run(&place, &origin, &theirs, output);
            process::exit(0);
        })
        .context("start the hub's thread")?;

    browser::pump(io::stdin().lock(), &slot);
    Ok(())
}

/// The extension as the browser vouches for it, from the first argument.
fn origin(argument: Option<String>) -> anyhow::Result<String> {
    let Some(origin) = argument else {
        bail!("this program is started by a browser, for the extension; it does nothing by itself");
    };
    let id = origin.strip_prefix("chrome-extension://").and_then(|rest| rest.strip_suffix('/'));
    match id {
        Some(id) if id.len() == 32 && id.bytes().all(|b| matches!(b, b'a'..=b'p')) => Ok(origin),
        _ => bail!("the first argument must be the origin of a Chrome extension"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_origin_of_a_chrome_extension_is_taken() {
        let good = format!("chrome-extension://{}/", "abcdefghijklmnop".repeat(2));
        assert_eq!(origin(Some(good.clone())).unwrap(), good);
        let id = "a".repeat(32);
        for bad in [
            String::new(),
            "--help".to_owned(),
            id.clone(),
            format!("chrome-extension://{id}"),
            format!("moz-extension://{id}/"),
            format!("chrome-extension://{}q/", "a".repeat(31)),
            format!("chrome-extension://{id}a/"),
            format!("chrome-extension://{}\n/", "a".repeat(31)),
        ] {
            assert!(origin(Some(bad.clone())).is_err(), "{bad:?}");
        }
        assert!(origin(None).is_err());
    }
}
