//! The calls that are running: bounded in number and in time, and ended with their grant.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use consentry_wire::frame::{self, Call, FromExtension, Op};
use consentry_wire::{ErrorCode, Failure, GrantLabel};
use futures_util::future::{AbortHandle, Either, abortable, select};
use js_sys::futures::spawn_local;

use super::Worker;
use super::ops;
use crate::chrome::time::{moment, sleep};
use crate::debugger;

/// More than this at once is refused.
const MOST: usize = 64;

/// The calls that are running.
#[derive(Default)]
pub(super) struct Calls {
    running: RefCell<BTreeMap<u64, Running>>,
}

struct Running {
    grant: GrantLabel,
    acts: bool,
    abort: AbortHandle,
}

impl Calls {
    pub(super) fn count(&self) -> usize {
        self.running.borrow().len()
    }

    /// The answer is no longer wanted.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(call) = self.running.borrow_mut().remove(&id) {
            call.abort.abort();
        }
    }

    /// The link is lost: nobody waits for any of them.
    pub(super) fn drop_all(&self) {
        for call in std::mem::take(&mut *self.running.borrow_mut()).into_values() {
            call.abort.abort();
        }
    }

    /// These grants ended. Gives what is to be answered.
    pub(super) fn end(&self, grants: &[GrantLabel]) -> Vec<FromExtension> {
        let mut running = self.running.borrow_mut();
        let of = |call: &Running| grants.contains(&call.grant);
        let ended: Vec<u64> = running.iter().filter(|(_, call)| of(call)).map(|(id, _)| *id).collect();
        let mut answers = Vec::new();
        for id in ended {
            if let Some(call) = running.remove(&id) {
                call.abort.abort();
                let message = format!("grant {} ended while the call ran", call.grant);
                let error = call.late(Failure::new(ErrorCode::GrantEnded, message));
                answers.push(FromExtension::Failed { id, error });
            }
        }
        answers
    }

    fn take(&self, id: u64) -> Option<Running> {
        self.running.borrow_mut().remove(&id)
    }
}

impl Running {
    fn late(&self, failure: Failure) -> Failure {
        if self.acts { failure.maybe_done() } else { failure }
    }
}

/// Runs one call and answers it.
pub(super) fn run(worker: &Rc<Worker>, call: Call) {
    let Call { id, grant, deadline_ms, op } = call;
    if worker.calls.running.borrow().contains_key(&id) {
        return worker.warn("a call came with the id of one that is running");
    }
    let refusal = if worker.calls.count() >= MOST {
        Some(Failure::new(ErrorCode::Busy, format!("{MOST} calls are running")).retry_after(200))
    } else {
        worker.guard.borrow().may_run(&grant, moment()).err()
    };
    if let Some(error) = refusal {
        return worker.send(&FromExtension::Failed { id, error });
    }
    let deadline = f64::from(deadline_ms);
    let acts = match &op {
        Op::OpenTab { .. } | Op::Navigate { .. } | Op::Activate { .. } | Op::Close { .. } => true,
        Op::ListTabs | Op::Attach { .. } | Op::Detach { .. } => false,
        Op::Cdp { method, params, .. } => debugger::acts(method, params),
    };
    let (work, abort) = abortable(ops::run(Rc::clone(worker), grant.clone(), deadline, op));
    worker.calls.running.borrow_mut().insert(id, Running { grant, acts, abort });
    worker.show_badge();
    let worker = Rc::clone(worker);
    spawn_local(async move {
        let result = match select(pin!(work), pin!(sleep(deadline))).await {
            Either::Left((Ok(result), _)) => Some(result),
            // Whoever aborted it has answered, or nobody waits.
            Either::Left((Err(_), _)) => None,
            Either::Right(..) => Some(Err(Failure::new(
                ErrorCode::DeadlineExceeded,
                format!("the browser did not answer within {deadline_ms} ms"),
            ))),
        };
        if let (Some(result), Some(call)) = (result, worker.calls.take(id)) {
            match result {
                Ok(json) => worker.link.send(done(id, &json)),
                Err(error) if error.code == ErrorCode::DeadlineExceeded => {
                    worker.send(&FromExtension::Failed { id, error: call.late(error) });
                }
                Err(error) => worker.send(&FromExtension::Failed { id, error }),
            }
        }
        worker.show_badge();
        worker.reload_if_due();
    });
}

/// [`FromExtension::Done`] around a result that is JSON already: a picture is not read and written again.
fn done(id: u64, json: &str) -> String {
    let frame = frame::write(&FromExtension::Done { id, result: serde_json::Value::Null });
    match frame.strip_suffix("null}") {
        Some(head) => [head, json, "}"].concat(),
        None => frame,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_that_is_json_already_makes_the_same_frame() {
        let result = json!({"data": "a\"b", "n": [1, null]});
        let frame = FromExtension::Done { id: 7, result: result.clone() };
        assert_eq!(done(7, &result.to_string()), frame::write(&frame));
        assert_eq!(
            frame::read::<FromExtension>(&done(7, "null")).unwrap(),
            FromExtension::Done { id: 7, result: json!(null) }
        );
    }
}
