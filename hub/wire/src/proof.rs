//! Mutual proof between the hub and whoever connects to it (the extension over WebSocket, the relay over the
//! socket): each shows that it holds the token, and the token itself never crosses.
//!
//! ```text
//! caller → hub     challenge { nonce: c }
//! hub    → caller  answer    { nonce: h, proof: HMAC(token, "consentry hub" ‖ c ‖ h) }
//! caller → hub     response  { proof: HMAC(token, "consentry caller" ‖ h ‖ c) }
//! ```
//!
//! The caller says nothing about itself before the hub's proof held, so a squatter on the port or the socket
//! learns one nonce. The words in front keep a proof from being reflected back as the other side's.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;

/// The shared secret between the hub and the extension.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// Fewest bytes that are taken for a secret.
    pub const MIN_BYTES: usize = 16;

    /// Takes the text of `extension-token`, white space around it aside.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (text.len() >= Self::MIN_BYTES).then(|| Self(text.as_bytes().to_vec()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// One message of the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Handshake {
    /// First, from the caller.
    Challenge {
        /// Fresh random hex.
        nonce: String,
    },
    /// Second, from the hub.
    Answer {
        /// Fresh random hex.
        nonce: String,
        /// The hub's proof.
        proof: String,
    },
    /// Third, from the caller.
    Response {
        /// The caller's proof.
        proof: String,
    },
}

/// Why the other side is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// Something else than the handshake's next message.
    #[error("the handshake's next message was expected")]
    Unexpected,
    /// A nonce that is not 32 bytes of hex.
    #[error("a nonce must be {NONCE_BYTES} bytes of hex")]
    BadNonce,
    /// The other side does not hold the token.
    #[error("the proof is wrong")]
    Wrong,
}

/// The caller's half: the extension, or the relay.
#[derive(Debug)]
pub struct Caller {
    token: Token,
    nonce: String,
}

impl Caller {
    /// Begins; `random` must be fresh.
    pub fn start(token: Token, random: [u8; NONCE_BYTES]) -> (Self, Handshake) {
        let nonce = hex(&random);
        (Self { token, nonce: nonce.clone() }, Handshake::Challenge { nonce })
    }

    /// Checks the hub, and only then gives the caller's own proof.
    ///
    /// # Errors
    /// When what answered does not hold the token.
    pub fn finish(self, answer: &Handshake) -> Result<Handshake, ProofError> {
        let Handshake::Answer { nonce, proof } = answer else { return Err(ProofError::Unexpected) };
        check_nonce(nonce)?;
        verify(&self.token, HUB, &self.nonce, nonce, proof)?;
        Ok(Handshake::Response { proof: prove(&self.token, CALLER, nonce, &self.nonce) })
    }
}

/// The hub's half.
#[derive(Debug)]
pub struct Hub {
    token: Token,
    caller_nonce: String,
    nonce: String,
}

impl Hub {
    /// Answers a challenge; `random` must be fresh.
    ///
    /// # Errors
    /// When the message is no challenge.
    pub fn answer(
        token: Token,
        challenge: &Handshake,
        random: [u8; NONCE_BYTES],
    ) -> Result<(Self, Handshake), ProofError> {
        let Handshake::Challenge { nonce: caller_nonce } = challenge else {
            return Err(ProofError::Unexpected);
        };
        check_nonce(caller_nonce)?;
        let nonce = hex(&random);
        let proof = prove(&token, HUB, caller_nonce, &nonce);
        Ok((
            Self { token, caller_nonce: caller_nonce.clone(), nonce: nonce.clone() },
            Handshake::Answer { nonce, proof },
        ))
    }

    /// Checks the caller.
    ///
    /// # Errors
    /// When the caller does not hold the token.
    pub fn finish(self, response: &Handshake) -> Result<(), ProofError> {
        let Handshake::Response { proof } = response else { return Err(ProofError::Unexpected) };
        verify(&self.token, CALLER, &self.nonce, &self.caller_nonce, proof)
    }
}

const HUB: &str = "consentry hub";
const CALLER: &str = "consentry caller";

fn mac(token: &Token, role: &str, first: &str, second: &str) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(&token.0).expect("any key length");
    for part in [role, first, second] {
        mac.update(part.as_bytes());
        mac.update(b"\n");
    }
    mac
}

fn prove(token: &Token, role: &str, first: &str, second: &str) -> String {
    hex(&mac(token, role, first, second).finalize().into_bytes())
}

/// In constant time.
fn verify(token: &Token, role: &str, first: &str, second: &str, proof: &str) -> Result<(), ProofError> {
    let proof = unhex(proof).ok_or(ProofError::Wrong)?;
    mac(token, role, first, second).verify_slice(&proof).map_err(|_| ProofError::Wrong)
}

fn check_nonce(nonce: &str) -> Result<(), ProofError> {
    unhex(nonce).filter(|bytes| bytes.len() == NONCE_BYTES).map(drop).ok_or(ProofError::BadNonce)
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    #[test]
    fn both_sides_with_the_token_trust_each_other() {
        let (caller, challenge) = Caller::start(token("a-token-of-some-length"), [1; 32]);
        let (hub, answer) = Hub::answer(token("a-token-of-some-length\n"), &challenge, [2; 32]).unwrap();
        let response = caller.finish(&answer).unwrap();
        assert_eq!(hub.finish(&response), Ok(()));
    }

    #[test]
    fn a_squatter_gets_no_proof_and_a_stranger_is_refused() {
        let (caller, challenge) = Caller::start(token("a-token-of-some-length"), [1; 32]);
        let (_, forged) = Hub::answer(token("another-token-entirely"), &challenge, [2; 32]).unwrap();
        assert_eq!(caller.finish(&forged), Err(ProofError::Wrong));

        let (stranger, challenge) = Caller::start(token("another-token-entirely"), [1; 32]);
        let (hub, _) = Hub::answer(token("a-token-of-some-length"), &challenge, [2; 32]).unwrap();
        let made_up =
            Handshake::Response { proof: prove(&stranger.token, CALLER, &hub.nonce, &stranger.nonce) };
        assert_eq!(hub.finish(&made_up), Err(ProofError::Wrong));
    }

    #[test]
    fn a_reflected_proof_is_worth_nothing() {
        let secret = token("a-token-of-some-length");
        let (_, challenge) = Caller::start(secret.clone(), [1; 32]);
        let (hub, answer) = Hub::answer(secret, &challenge, [1; 32]).unwrap();
        let Handshake::Answer { proof, .. } = answer else { panic!() };
        assert_eq!(hub.finish(&Handshake::Response { proof }), Err(ProofError::Wrong));
    }

    #[test]
    fn nonsense_is_a_typed_error() {
        let short = Handshake::Challenge { nonce: "00".into() };
        assert_eq!(
            Hub::answer(token("a-token-of-some-length"), &short, [0; 32]).unwrap_err(),
            ProofError::BadNonce
        );
        let early = Handshake::Response { proof: String::new() };
        assert_eq!(
            Hub::answer(token("a-token-of-some-length"), &early, [0; 32]).unwrap_err(),
            ProofError::Unexpected
        );
        assert!(Token::new("short").is_none());
        assert_eq!((unhex("é0"), unhex("+f")), (None, None));
    }
}
