//! The chain on a real file.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use consentry_audit::{AuditLog, Limits, read_all, tail, verify};
use consentry_core::{Audit as _, Record, Weight};
use serde_json::json;

struct Scene {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        Self { _folder: folder, path }
    }

    fn write(&self, limits: Limits, lines: usize) {
        let log = AuditLog::open(&self.path, limits).unwrap();
        for n in 0..lines {
            log.append(Record::new("call", [("tool", json!(format!("tool {n}")))]), Weight::Light).unwrap();
        }
    }

    fn broken(&self) -> String {
        verify(&self.path).unwrap().unwrap_err().to_string()
    }
}

#[test]
fn the_chain_holds_over_restarts_and_rotations() {
    let scene = Scene::new();
    let limits = Limits { bytes: 2000, files: 100 };
    for _ in 0..5 {
        scene.write(limits, 20);
    }
    let verified = verify(&scene.path).unwrap().unwrap();
    assert_eq!((verified.lines, verified.first, verified.last), (100, 1, 100));
    assert_eq!(read_all(&scene.path).unwrap().len(), 100);
    let newest = tail(&scene.path, 7).unwrap();
    assert_eq!(newest.iter().map(|entry| entry.n).collect::<Vec<_>>(), (94..=100).collect::<Vec<_>>());
    let mode = std::fs::metadata(&scene.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn old_files_go_and_what_is_kept_still_verifies() {
    let scene = Scene::new();
    scene.write(Limits { bytes: 2000, files: 2 }, 100);
    let verified = verify(&scene.path).unwrap().unwrap();
    assert!(verified.first > 1 && verified.last == 100);
}

#[test]
fn a_line_that_was_changed_removed_or_put_in_shows() {
    let tamper = |change: &dyn Fn(&mut Vec<String>)| {
        let scene = Scene::new();
        scene.write(Limits::default(), 5);
        let mut lines: Vec<String> =
            std::fs::read_to_string(&scene.path).unwrap().lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(&scene.path, lines.join("\n") + "\n").unwrap();
        scene.broken()
    };
    assert!(tamper(&|lines| lines[2] = lines[2].replace("tool 2", "tool X")).contains("was changed"));
    assert!(tamper(&|lines| drop(lines.remove(2))).contains("is missing"));
    assert!(tamper(&|lines| lines.insert(2, lines[1].clone())).contains("is missing"));
    assert!(tamper(&|lines| lines[0] = lines[0].replace("000", "111")).contains("first line"));
    assert!(tamper(&|lines| lines[3] = "nonsense".into()).contains("no JSON"));
}

#[test]
fn what_a_crash_cut_off_is_marked_and_the_chain_goes_on() {
    let scene = Scene::new();
    scene.write(Limits::default(), 3);
    std::fs::OpenOptions::new()
        .append(true)
        .open(&scene.path)
        .unwrap()
        .write_all(b"{\"n\":4,\"at\":\"20")
        .unwrap();
    assert!(scene.broken().contains("no JSON"));
    scene.write(Limits::default(), 1);
    assert!(verify(&scene.path).unwrap().is_ok());
    assert!(read_all(&scene.path).unwrap().iter().any(|entry| entry.kind == "cut_off"));
}

#[test]
fn a_line_that_is_far_too_long_loses_its_longest_field_and_the_audit_opens_again() {
    let scene = Scene::new();
    let log = AuditLog::open(&scene.path, Limits::default()).unwrap();
    let fields = [("tool", json!("read_page")), ("args", json!("x".repeat(6_000_000)))];
    log.append(Record::new("call", fields), Weight::Light).unwrap();
    assert!(std::fs::metadata(&scene.path).unwrap().len() < 1000);
    drop(log);
    scene.write(Limits::default(), 1);
    assert!(verify(&scene.path).unwrap().is_ok());
    assert_eq!(read_all(&scene.path).unwrap()[0].fields["tool"], json!("read_page"));
}

#[test]
fn a_file_that_is_taken_away_is_no_audit() {
    let scene = Scene::new();
    let log = AuditLog::open(&scene.path, Limits::default()).unwrap();
    log.append(Record::new("call", []), Weight::Light).unwrap();
    std::fs::rename(&scene.path, scene.path.with_extension("elsewhere")).unwrap();
    assert!(log.append(Record::new("call", []), Weight::Light).is_err());
    std::fs::write(&scene.path, "").unwrap();
    assert!(log.append(Record::new("call", []), Weight::Light).is_err());
}

#[test]
fn a_file_that_another_program_cut_or_wrote_to_is_no_audit() {
    for spoil in [
        (|path| std::fs::File::options().write(true).open(path).unwrap().set_len(10).unwrap()) as fn(&Path),
        |path| std::fs::File::options().append(true).open(path).unwrap().write_all(b"{}\n").unwrap(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open(&path, Limits::default()).unwrap();
        log.append(Record::new("call", []), Weight::Light).unwrap();
        spoil(&path);
        assert!(log.append(Record::new("call", []), Weight::Light).is_err());
    }
}

#[test]
fn a_file_that_is_open_to_others_or_not_ours_is_refused() {
    let scene = Scene::new();
    scene.write(Limits::default(), 1);
    std::fs::set_permissions(&scene.path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(AuditLog::open(&scene.path, Limits::default()).unwrap_err().to_string().contains("chmod 600"));
    std::fs::set_permissions(&scene.path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&scene.path, "something else\n").unwrap();
    assert!(AuditLog::open(&scene.path, Limits::default()).unwrap_err().to_string().contains("none of ours"));
}
