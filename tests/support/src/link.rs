//! The extension's end of a link, spoken by hand: a browser that links and does nothing, and peers that lie.

use std::time::Duration;

use anyhow::{Context, bail};
use consentry_wire::frame::{FromExtension, Hello, ToExtension, read, write};
use consentry_wire::proof::{Caller, Handshake, NONCE_BYTES, Token};
use consentry_wire::version;
use futures_util::{SinkExt, StreamExt};
use rand::RngExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::hub::ScratchHub;

/// How long the hub may take to answer one message.
const DEADLINE: Duration = Duration::from_secs(10);

/// A WebSocket to the hub's door, before anything was proved.
#[derive(Debug)]
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What came on a [`Socket`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A message.
    Text(String),
    /// The end, with its code if there was one.
    Closed(Option<u16>),
}

impl Socket {
    /// Connects as a page of this origin would.
    ///
    /// # Errors
    /// When the door refuses; the error has the HTTP status.
    pub async fn connect(port: u16, origin: &str) -> anyhow::Result<Self> {
        let mut request = format!("ws://127.0.0.1:{port}/extension").into_client_request()?;
        request.headers_mut().insert("origin", origin.parse()?);
        let connected =
            timeout(DEADLINE, connect_async(request)).await.context("the door does not answer")?;
        Ok(Self(connected?.0))
    }

    /// Sends a message as it is.
    ///
    /// # Errors
    /// When the other side is gone.
    pub async fn say(&mut self, text: impl Into<String>) -> anyhow::Result<()> {
        Ok(self.0.send(Message::text(text.into())).await?)
    }

    /// The next message, or the end.
    ///
    /// # Errors
    /// When nothing comes in time.
    pub async fn hear(&mut self) -> anyhow::Result<Heard> {
        loop {
            return Ok(match timeout(DEADLINE, self.0.next()).await.context("the hub says nothing")? {
                Some(Ok(Message::Text(text))) => Heard::Text(text.to_string()),
                Some(Ok(Message::Close(frame))) => Heard::Closed(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => Heard::Closed(None),
            });
        }
    }

    /// Sends a challenge and gives the half that can check what comes.
    ///
    /// # Errors
    /// When the other side is gone, or the token is too short.
    pub async fn challenge(&mut self, token: &str) -> anyhow::Result<Caller> {
        let random: [u8; NONCE_BYTES] = rand::rng().random();
        let (caller, challenge) = Caller::start(Token::new(token).context("a token")?, random);
        self.say(write(&challenge)).await?;
        Ok(caller)
    }

    /// Proves itself with this token, and has the hub prove itself.
    ///
    /// # Errors
    /// When the hub does not hold the token.
    pub async fn prove(&mut self, token: &str) -> anyhow::Result<()> {
        let caller = self.challenge(token).await?;
        let Heard::Text(answer) = self.hear().await? else { bail!("the hub closed instead of answering") };
        let answer: Handshake = serde_json::from_str(&answer)?;
        self.say(write(&caller.finish(&answer)?)).await
    }
}

/// A browser that links, acknowledges every state, and fails every call. It is gone when this is dropped.
#[derive(Debug)]
pub struct FakeBrowser(JoinSet<()>);

impl FakeBrowser {
    /// Links with the hub's own token as this profile.
    ///
    /// # Errors
    /// When the hub does not take it.
    pub async fn link(hub: &ScratchHub, profile: &str) -> anyhow::Result<Self> {
        let id = hub.run(&["extension", "path", "--json"]).await?.json()?;
        let id = id["id"].as_str().context("an id")?.to_owned();
        let token = std::fs::read_to_string(hub.home().join("extension-token"))?;
        let mut socket = Socket::connect(hub.control_port(), &format!("chrome-extension://{id}")).await?;
        socket.prove(token.trim()).await?;
        socket.say(write(&FromExtension::Hello(hello(profile)?))).await?;
        match socket.hear().await? {
            Heard::Text(frame) if matches!(read(&frame), Ok(ToExtension::Welcome(_))) => {}
            other => bail!("the hub does not welcome the browser: {other:?}"),
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Until the hub closes.
            while let Some(Ok(message)) = socket.0.next().await {
                let Message::Text(text) = message else { continue };
                let reply = match read(&text) {
                    Ok(ToExtension::State(state)) => FromExtension::Ack { epoch: state.epoch },
                    Ok(ToExtension::Ping) => FromExtension::Pong,
                    Ok(ToExtension::Call(call)) => FromExtension::Failed {
                        id: call.id,
                        error: consentry_wire::Failure::new(
                            consentry_wire::ErrorCode::BrowserError,
                            "a fake",
                        ),
                    },
                    _ => continue,
                };
                if socket.say(write(&reply)).await.is_err() {
                    break;
                }
            }
        });
        Ok(Self(tasks))
    }

    /// Whether it is still linked.
    pub fn is_linked(&mut self) -> bool {
        self.0.try_join_next().is_none()
    }
}

/// What a browser says of itself.
///
/// # Errors
/// When that is no profile's id.
pub fn hello(profile: &str) -> anyhow::Result<Hello> {
    let worker: u64 = rand::rng().random();
    Ok(Hello {
        version: version::CURRENT,
        build: "0.0.0".into(),
        profile: profile.parse().map_err(|error| anyhow::anyhow!("{error}"))?,
        worker: worker.to_string(),
        name: String::new(),
        browser: "Fake 1".into(),
        install: "other".into(),
    })
}
