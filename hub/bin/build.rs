//! Takes the built extension into the program. Without one the program still builds, and says how to build it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where `cargo xtask extension` leaves the built extension, below the target folder.
const BUILT: &str = "unpacked-extension";

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    // OUT_DIR is target/<profile>/build/<package>/out, with the target's name in front of the profile when crossing.
    let built =
        out.ancestors().skip(4).take(2).map(|folder| folder.join(BUILT)).find(|folder| folder.is_dir());
    let watched = out.ancestors().nth(4).unwrap_or(&out).join(BUILT);
    println!("cargo::rerun-if-changed={}", built.as_deref().unwrap_or(&watched).display());
    let mut files = Vec::new();
    if let Some(built) = &built {
        collect(built, built, &mut files)?;
    }
    files.sort();
    let mut code = String::from("pub(crate) const FILES: &[(&str, &[u8])] = &[\n");
    for (name, path) in files {
        println!("cargo::rerun-if-changed={}", path.display());
        code.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", path.display().to_string()));
    }
    code.push_str("];\n");
    fs::write(out.join("extension.rs"), code)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push((name.to_string_lossy().replace('\\', "/"), path));
        }
    }
    Ok(())
}
