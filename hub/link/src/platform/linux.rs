//! By /proc.

use std::path::PathBuf;

/// The program that started a process.
pub fn parent_program(pid: i32) -> Option<PathBuf> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also parentheses.
    let after = stat.rsplit_once(')')?.1;
    let parent: i32 = after.split_whitespace().nth(1)?.parse().ok()?;
    std::fs::read_link(format!("/proc/{parent}/exe")).ok()
}
