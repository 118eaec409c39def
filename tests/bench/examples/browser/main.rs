//! What is promised of the browser path, measured: `cargo xtask bench browser` builds and runs it.
//!
//! Everything runs on this machine, on loopback, in one run: ours, the bare browser, and the peers.

mod bare;
mod ours;
mod page;
mod peers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use consentry_bench::{Goal, rounded, say, table};
use consentry_test_support::pages::Pages;
use serde_json::{Value, json};

use crate::bare::Bare;
use crate::ours::{Ours, Reading};

/// Of each figure; of cheap calls ten times as many.
const SAMPLES: usize = 20;

#[derive(Parser)]
#[command(name = "cargo xtask bench browser")]
struct Args {
    /// Where the built programs are.
    #[arg(long)]
    programs: PathBuf,
    /// Where the peers are, or are to be installed.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Without peers.
    #[arg(long)]
    alone: bool,
    /// Ends with one line of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    // A browser that starts its native host gives it the extension's origin.
    if std::env::args().nth(1).is_some_and(|argument| argument.starts_with("chrome-extension://")) {
        return if bare::echo().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let args = Args::parse();
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    runtime.block_on(async {
        tokio::select! {
            code = bench(&args) => code,
            _ = tokio::signal::ctrl_c() => ExitCode::FAILURE,
        }
    })
}

async fn bench(args: &Args) -> ExitCode {
    let pages = match Pages::serve().await {
        Ok(pages) => pages,
        Err(error) => {
            say(format_args!("no page can be served: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let started = tell("the hub's start", ours::start(&args.programs, SAMPLES).await);
    let Some(ours) = tell("Consentry", ours::measure(&args.programs, &pages, SAMPLES).await) else {
        return ExitCode::FAILURE;
    };
    let bare = tell("the bare browser", bare::measure(SAMPLES).await);
    let mut peers = BTreeMap::new();
    if let Some(folder) = args.peers.as_ref().filter(|_| !args.alone) {
        measure_peers(folder, &pages, &mut peers).await;
    }

    let goals = goals(started, &ours, bare, &peers);
    table(&goals);
    details(&ours, bare);
    if args.json {
        let peers: BTreeMap<&str, Value> =
            peers.iter().map(|(name, pages)| (*name, ours::figures(pages))).collect();
        let figures = json!({
            "pages": ours::figures(&ours.pages), "bare_evaluate_ms": bare.map(|bare| rounded(bare.evaluate)),
            "bare_echo_ms": bare.map(|bare| rounded(bare.echo)), "busy_rss_mb": ours.busy_rss_mb.map(rounded),
        });
        say(json!({ "goals": goals, "machine": machine(&ours), "peers": peers, "figures": figures }));
    }
    ExitCode::SUCCESS
}

/// Says what could not be measured, and goes on.
fn tell<T>(what: &str, outcome: anyhow::Result<T>) -> Option<T> {
    match outcome {
        Ok(measured) => {
            say(format_args!("    measured {what}"));
            Some(measured)
        }
        Err(error) => {
            say(format_args!("    could not measure {what}: {error:#}"));
            None
        }
    }
}

async fn measure_peers(
    folder: &Path,
    pages: &Pages,
    readings: &mut BTreeMap<&'static str, BTreeMap<usize, Reading>>,
) {
    if let Err(error) = peers::fetch(folder).await {
        say(format_args!("    could not fetch the peers: {error:#}"));
        return;
    }
    let chromium = std::env::var_os("CONSENTRY_CHROMIUM").unwrap_or_else(|| "/usr/bin/chromium".into());
    // The second one's pages are compared in length alone.
    for (peer, samples) in [(&peers::PLAYWRIGHT, SAMPLES), (&peers::CHROME_DEVTOOLS, 1)] {
        let measured = peers::measure(peer, folder, Path::new(&chromium), pages, samples).await;
        if let Some(measured) = tell(peer.package, measured) {
            readings.insert(peer.package, measured);
        }
    }
}

fn goals(
    started: Option<(f64, f64)>,
    ours: &Ours,
    bare: Option<Bare>,
    peers: &BTreeMap<&'static str, BTreeMap<usize, Reading>>,
) -> Vec<Goal> {
    let mut goals = vec![
        Goal::at_most("evaluate", ours.evaluate, 3.0, "ms"),
        Goal::at_most(
            "evaluate_over_bare",
            ours.evaluate,
            bare.map(|bare| bare.evaluate + bare.echo + 1.0),
            "ms",
        ),
    ];
    let theirs = |peer: &peers::Peer, rows: usize| {
        peers.get(peer.package).and_then(|pages| pages.get(&rows)).copied().unwrap_or_default()
    };
    let ratio = |above: Option<f64>, below: Option<f64>| above.zip(below).map(|(above, below)| above / below);
    for (&rows, own) in &ours.pages {
        let (playwright, devtools) =
            (theirs(&peers::PLAYWRIGHT, rows), theirs(&peers::CHROME_DEVTOOLS, rows));
        let faster = ratio(playwright.outline, own.outline);
        goals.push(Goal::at_least(format!("outline_{rows}_over_playwright"), faster, 3.0, "×"));
        let chars = devtools.chars.map(|chars| chars - 1.0);
        goals.push(Goal::at_most(format!("outline_{rows}_chars"), own.chars, chars, "chars"));
        let click = ratio(own.click, playwright.click);
        goals.push(Goal::at_most(format!("click_{rows}_of_playwright"), click, 0.1, "×"));
    }
    goals.push(Goal::at_most("hub_ready", started.map(|(ready, _)| ready), 150.0, "ms"));
    goals.push(Goal::at_most("hub_idle_rss", started.map(|(_, idle)| idle), 20.0, "MB"));
    goals.push(Goal::at_most("tools_list", ours.tools_list_bytes, 12_288.0, "bytes"));
    goals
}

fn details(ours: &Ours, bare: Option<Bare>) {
    for (rows, reading) in &ours.pages {
        let shown = |figure: Option<f64>| figure.map(rounded).unwrap_or(f64::NAN);
        say(format_args!(
            "{rows} rows: outline {} ms, {} characters; click {} ms",
            shown(reading.outline),
            shown(reading.chars),
            shown(reading.click)
        ));
    }
    if let Some(bare) = bare {
        say(format_args!(
            "bare chrome.debugger evaluate {} ms, bare native echo {} ms",
            rounded(bare.evaluate),
            rounded(bare.echo)
        ));
    }
}

fn machine(ours: &Ours) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cpu = cpu.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    format!("{cores} cores of {cpu}, {}, {}", std::env::consts::OS, ours.browser)
}
