//! The WebSocket door, for browsers where no native-messaging host can be registered.

use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use consentry_wire::proof::{Handshake, Hub as HubProof};
use consentry_wire::socket::MAX_LINE;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::mpsc;

use crate::door::{Door, random};
use crate::links::Transport;
use crate::session::{self, LinkEnd, Pipe};

/// How long an extension may take to prove itself.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// The proof is wrong.
const WRONG_PROOF: u16 = 4003;
/// The other side ended it: no code of ours, and nothing to be sent any more.
const GONE: u16 = 1006;
const WRONG_TOKEN: &str =
    "the extension's token is not ours: copy it again, `consentry extension token` shows it";
/// A message that is none of the protocol.
const BAD_FRAME: u16 = 4002;

/// The route `/extension`.
pub async fn websocket(State(door): State<Door>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    let expected = format!("chrome-extension://{}", door.inner.extension_id);
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    if origin != Some(expected.as_str()) {
        door.refused(&format!("a WebSocket came from {:.80}", origin.unwrap_or("no origin")));
        return (StatusCode::FORBIDDEN, "the Origin is not our extension's").into_response();
    }
    upgrade.max_message_size(MAX_LINE).max_frame_size(MAX_LINE).on_upgrade(move |socket| link(door, socket))
}

async fn link(door: Door, mut socket: WebSocket) {
    match tokio::time::timeout(INTRODUCTION, introduce(&door, &mut socket)).await {
        Ok(Ok(())) => {}
        Ok(Err((code, why))) => {
            door.refused(why);
            return close(socket, code, why).await;
        }
        Err(_) => return close(socket, BAD_FRAME, "no proof came in time").await,
    }
    let (mut sink, mut stream) = socket.split();
    let (to_session, incoming) = mpsc::channel(64);
    let (outgoing, mut from_session) = mpsc::channel::<String>(64);
    let reading = async {
        while let Some(Ok(message)) = stream.next().await {
            match message {
                Message::Text(text) if to_session.send(text.to_string()).await.is_ok() => {}
                Message::Ping(_) | Message::Pong(_) => {}
                _ => break,
            }
        }
        drop(to_session);
        std::future::pending::<()>().await;
    };
    let writing = async {
        while let Some(message) = from_session.recv().await {
            if sink.send(Message::Text(message.into())).await.is_err() {
                break;
            }
        }
    };
    let session = session::run(&door, Pipe { incoming, outgoing, transport: Transport::WebSocket });
    let why = session::carry(session, reading, writing).await;
    if matches!(why, LinkEnd::BadFrame(_) | LinkEnd::NoHello) {
        let frame = CloseFrame { code: BAD_FRAME, reason: "that was no frame".into() };
        let _ = tokio::time::timeout(Duration::from_secs(1), sink.send(Message::Close(Some(frame)))).await;
    }
}

async fn introduce(door: &Door, socket: &mut WebSocket) -> Result<(), (u16, &'static str)> {
    let token = door.token().ok_or((WRONG_PROOF, "there is no token: `consentry setup` makes one"))?;
    let challenge = receive(socket).await?;
    let answered = HubProof::answer(token, &challenge, random());
    let (proof, answer) = answered.map_err(|_| (BAD_FRAME, "a challenge was expected"))?;
    let text = serde_json::to_string(&answer).unwrap_or_default();
    let sent = socket.send(Message::Text(text.into())).await;
    sent.map_err(|_| (BAD_FRAME, "the extension went away"))?;
    // An extension checks us first and says nothing more to a hub with another token than its own.
    let response = receive(socket)
        .await
        .map_err(|(code, why)| if code == GONE { (WRONG_PROOF, WRONG_TOKEN) } else { (code, why) })?;
    proof.finish(&response).map_err(|_| (WRONG_PROOF, WRONG_TOKEN))
}

async fn receive(socket: &mut WebSocket) -> Result<Handshake, (u16, &'static str)> {
    match socket.recv().await {
        Some(Ok(Message::Text(text))) => {
            serde_json::from_str(&text).map_err(|_| (BAD_FRAME, "the handshake was expected"))
        }
        Some(Ok(Message::Close(_)) | Err(_)) | None => Err((GONE, "the extension went away")),
        _ => Err((BAD_FRAME, "the handshake was expected")),
    }
}

async fn close(mut socket: WebSocket, code: u16, why: &'static str) {
    let frame = CloseFrame { code, reason: why.into() };
    let _ = tokio::time::timeout(Duration::from_secs(1), socket.send(Message::Close(Some(frame)))).await;
}
