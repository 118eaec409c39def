//! The dialog as the hub runs it, and programs that want to answer it.

#[path = "../../../../../tests/support/src/hand.rs"]
#[expect(dead_code, unreachable_pub, reason = "shared with other crates' tests, which need more of it")]
pub(crate) mod hand;
#[path = "../../../../../tests/support/src/xsession.rs"]
#[expect(dead_code, unreachable_pub, reason = "shared with other crates' tests, which need more of it")]
pub(crate) mod xsession;

pub(crate) mod attack;
pub(crate) mod dialog;
