//! The whole way, on real parts: a real client, the real hub, its dialog with a real pointer, the extension in a
//! real Chromium. Built first by `cargo xtask build`; `CONSENTRY_SLOW=1` repeats races more often.
//!
//! Best run by `cargo test`: under nextest each test starts its own scene.
#![expect(clippy::print_stderr, reason = "the harness prints")]

mod asking;
mod audit;
mod background;
mod command_line;
mod configuration;
mod dialogs;
mod ending;
mod forbidden;
mod links;
mod listener;
mod options;
mod races;
mod refs;
mod secrets;
mod sites;
mod stage;
mod status_page;
mod stdio;
mod tabs;
mod websocket;
mod whole_way;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if let Err(error) = consentry_test_support::hub::Programs::beside_this() {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let tests = [
        whole_way::tests(),
        asking::tests(),
        ending::tests(),
        links::tests(),
        websocket::tests(),
        forbidden::tests(),
        sites::tests(),
        background::tests(),
        tabs::tests(),
        dialogs::tests(),
        refs::tests(),
        races::tests(),
        secrets::tests(),
        audit::tests(),
        configuration::tests(),
        status_page::tests(),
        listener::tests(),
        stdio::tests(),
        options::tests(),
        command_line::tests(),
    ];
    let tests = stage::interleaved(tests.into_iter().flatten().collect());
    let conclusion = libtest_mimic::run(&arguments, tests);
    stage::end();
    conclusion.exit_code()
}
