//! The command line's end of `hub.sock`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, bail};
use consentry_config::Home;
use consentry_wire::proof::{Caller, Handshake, NONCE_BYTES, Token};
use consentry_wire::socket::{Reply, Request, Role};
use consentry_wire::version;
use rand::RngExt as _;
use serde_json::Value;

/// How long the hub may take for one reply.
const LIMIT: Duration = Duration::from_secs(15);

/// No hub listens.
#[derive(Debug, thiserror::Error)]
#[error("the hub is not running: start it with `consentry serve`")]
pub(crate) struct NotRunning;

/// A connection to the running hub, which has proved itself.
pub(crate) struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(home: &Home) -> anyhow::Result<Self> {
        let path = home.socket();
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Err(NotRunning.into());
            }
            Err(error) => return Err(error).with_context(|| format!("cannot reach {}", path.display())),
        };
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let token = std::fs::read_to_string(home.extension_token())
            .context("cannot read the token: run `consentry setup`")?;
        let token =
            Token::new(&token).context("the token is too short: run `consentry extension token --new`")?;
        let mut client = Self { reader: BufReader::new(stream) };
        let random: [u8; NONCE_BYTES] = rand::rng().random();
        let (caller, challenge) = Caller::start(token, random);
        client.send(&challenge)?;
        let answer: Handshake = client.receive()?.context("the hub went away")?;
        let response = caller.finish(&answer).context("what listens on the hub's socket is not the hub")?;
        client.send(&response)?;
        client.send(&Role::Command { version: version::CURRENT })?;
        Ok(client)
    }

    fn send(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line).context("the hub went away")
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let mut line = String::new();
        if self
            .reader
            .read_line(&mut line)
            .context("the hub does not answer; `consentry disable` stops everything all the same")?
            == 0
        {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line).context("the hub answered something unexpected")?))
    }

    /// One request and its one reply.
    pub(crate) fn ask(&mut self, command: &str, args: Value) -> anyhow::Result<Value> {
        self.send(&Request { command: command.to_owned(), args })?;
        let reply: Reply = self.receive()?.context("the hub went away")?;
        match (reply.result, reply.error) {
            (Some(result), _) => Ok(result),
            (None, Some(error)) => bail!("{}. Next: {}", error.message, error.next),
            (None, None) => Ok(Value::Null),
        }
    }
}
