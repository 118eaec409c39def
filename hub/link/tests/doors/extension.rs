//! The other end: an extension behind a relay or a WebSocket.

use std::net::SocketAddr;
use std::path::Path;

use consentry_wire::chunk::{Joiner, split};
use consentry_wire::frame::{Call, FromExtension, Hello, State, ToExtension, read, write};
use consentry_wire::proof::{Caller, Handshake, Token};
use consentry_wire::socket::Role;
use consentry_wire::version::{CURRENT, Version};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::scene::{EXTENSION, Scene, TOKEN, soon};

/// What carries the messages.
pub(crate) enum Carrier {
    Socket { read: BufReader<OwnedReadHalf>, write: OwnedWriteHalf },
    Web(Box<WebSocketStream<TcpStream>>),
}

/// What comes from the hub.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Message(String),
    /// The end, with the close code where there is one.
    Closed(Option<u16>),
}

impl Carrier {
    pub(crate) async fn socket(path: &Path) -> Self {
        let (read, write) = UnixStream::connect(path).await.unwrap().into_split();
        Carrier::Socket { read: BufReader::new(read), write }
    }

    pub(crate) async fn web(address: SocketAddr) -> Self {
        Self::web_from(address, Some(&format!("chrome-extension://{EXTENSION}"))).await.unwrap()
    }

    /// The status code if the hub does not take it.
    pub(crate) async fn web_from(address: SocketAddr, origin: Option<&str>) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/extension").into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("Origin", HeaderValue::from_str(origin).unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Carrier::Web(Box::new(socket))),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends; whether the other side still listens is not its business.
    pub(crate) async fn send(&mut self, message: &str) {
        match self {
            Carrier::Socket { write, .. } => {
                let _ = write.write_all(format!("{message}\n").as_bytes()).await;
            }
            Carrier::Web(socket) => drop(socket.send(Message::text(message)).await),
        }
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        match self {
            Carrier::Socket { write, .. } => drop(write.write_all(bytes).await),
            Carrier::Web(socket) => drop(socket.send(Message::binary(bytes.to_vec())).await),
        }
    }

    pub(crate) async fn next(&mut self) -> Said {
        soon(self.next_in_time()).await
    }

    async fn next_in_time(&mut self) -> Said {
        match self {
            Carrier::Socket { read, .. } => {
                let mut line = String::new();
                match read.read_line(&mut line).await {
                    Ok(count) if count > 0 => Said::Message(line.trim_end_matches('\n').to_owned()),
                    _ => Said::Closed(None),
                }
            }
            Carrier::Web(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => return Said::Message(text.to_string()),
                    Some(Ok(Message::Close(frame))) => {
                        return Said::Closed(frame.map(|frame| frame.code.into()));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(other)) => panic!("the hub sent {other:?}"),
                    Some(Err(_)) | None => return Said::Closed(None),
                }
            },
        }
    }

    /// Everything that still comes, until the end.
    pub(crate) async fn rest(&mut self) -> (Vec<String>, Option<u16>) {
        let mut rest = Vec::new();
        loop {
            match self.next().await {
                Said::Message(message) => rest.push(message),
                Said::Closed(code) => return (rest, code),
            }
        }
    }

    /// The caller's half of the handshake.
    pub(crate) async fn prove(&mut self, token: &str) {
        let (caller, challenge) = Caller::start(Token::new(token).unwrap(), [7; 32]);
        self.say(&challenge).await;
        let Said::Message(answer) = self.next().await else { panic!("the hub did not answer") };
        let answer: Handshake = serde_json::from_str(&answer).unwrap();
        let response = caller.finish(&answer).expect("the hub holds the token");
        self.say(&response).await;
    }

    pub(crate) async fn say(&mut self, value: &impl Serialize) {
        self.send(&write(value)).await;
    }

    /// Whether the socket is at its end, with nothing said before.
    pub(crate) async fn silent_end(&mut self) -> bool {
        match self {
            Carrier::Socket { read, .. } => {
                let mut rest = Vec::new();
                let _ = soon(read.read_to_end(&mut rest)).await;
                rest.is_empty()
            }
            Carrier::Web(_) => matches!(self.next().await, Said::Closed(_)),
        }
    }
}

pub(crate) fn relay_role() -> Role {
    Role::Relay { version: CURRENT, origin: format!("chrome-extension://{EXTENSION}/") }
}

pub(crate) fn hello(profile: &str, worker: &str) -> FromExtension {
    hello_of(profile, worker, CURRENT)
}

pub(crate) fn hello_of(profile: &str, worker: &str, version: Version) -> FromExtension {
    FromExtension::Hello(Hello {
        version,
        build: "0.1.0".into(),
        profile: profile.parse().unwrap(),
        worker: worker.into(),
        name: "Work".into(),
        browser: "Chromium 156".into(),
        install: "development".into(),
    })
}

pub(crate) struct Extension {
    pub(crate) carrier: Carrier,
    joiner: Joiner,
    /// The longest single message so far, in bytes.
    pub(crate) longest: usize,
}

impl Extension {
    /// One that has proved itself over the socket, and has not said who it is.
    pub(crate) async fn proved(scene: &Scene) -> Self {
        let mut carrier = Carrier::socket(&scene.socket).await;
        carrier.prove(TOKEN).await;
        carrier.say(&relay_role()).await;
        Self::over(carrier)
    }

    /// The same over the WebSocket.
    pub(crate) async fn proved_on_web(address: SocketAddr) -> Self {
        let mut carrier = Carrier::web(address).await;
        carrier.prove(TOKEN).await;
        Self::over(carrier)
    }

    fn over(carrier: Carrier) -> Self {
        Self { carrier, joiner: Joiner::default(), longest: 0 }
    }

    /// One that is linked.
    pub(crate) async fn linked(scene: &Scene, profile: &str, worker: &str) -> Self {
        Self::proved(scene).await.welcomed(profile, worker).await
    }

    pub(crate) async fn welcomed(mut self, profile: &str, worker: &str) -> Self {
        self.say(&hello(profile, worker)).await;
        match self.hear().await {
            Some(ToExtension::Welcome(_)) => self,
            other => panic!("not welcome: {other:?}"),
        }
    }

    pub(crate) async fn say(&mut self, frame: &FromExtension) {
        for message in split(write(frame)) {
            self.carrier.send(&message).await;
        }
    }

    /// The next frame; none at the end.
    pub(crate) async fn hear(&mut self) -> Option<ToExtension> {
        loop {
            let Said::Message(message) = self.carrier.next().await else { return None };
            self.longest = self.longest.max(message.len());
            if let Some(frame) = self.joiner.push(message).unwrap() {
                return Some(read(&frame).unwrap());
            }
        }
    }

    pub(crate) async fn hear_where(&mut self, wanted: impl Fn(&ToExtension) -> bool) -> ToExtension {
        loop {
            let frame = self.hear().await.expect("the link ended");
            if wanted(&frame) {
                return frame;
            }
        }
    }

    pub(crate) async fn hear_call(&mut self) -> Call {
        match self.hear_where(|frame| matches!(frame, ToExtension::Call(_))).await {
            ToExtension::Call(call) => call,
            _ => unreachable!("only calls are wanted"),
        }
    }

    pub(crate) async fn hear_state(&mut self) -> State {
        match self.hear_where(|frame| matches!(frame, ToExtension::State(_))).await {
            ToExtension::State(state) => state,
            _ => unreachable!("only states are wanted"),
        }
    }

    /// Hears until the end.
    pub(crate) async fn ended(&mut self) {
        while self.hear().await.is_some() {}
    }

    /// Answers pings and calls until the end.
    pub(crate) async fn work(mut self) {
        while let Some(frame) = self.hear().await {
            match frame {
                ToExtension::Ping => self.say(&FromExtension::Pong).await,
                ToExtension::State(state) => self.say(&FromExtension::Ack { epoch: state.epoch }).await,
                ToExtension::Call(call) => {
                    let result = serde_json::json!({ "worker": "works" });
                    self.say(&FromExtension::Done { id: call.id, result }).await;
                }
                _ => {}
            }
        }
    }
}
