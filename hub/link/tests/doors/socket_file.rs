//! The socket as a file.

use std::os::unix::fs::PermissionsExt as _;

use consentry_link::{SocketError, bind};

use crate::extension::Extension;
use crate::scene::Scene;

#[tokio::test]
async fn the_socket_is_its_owners_alone() {
    let scene = Scene::start().await;
    let mode = std::fs::metadata(&scene.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[tokio::test]
async fn a_hub_that_lives_keeps_its_socket() {
    let scene = Scene::start().await;
    let error = bind(&scene.socket).await.unwrap_err();
    assert!(matches!(&error, SocketError::InUse(path) if *path == scene.socket), "{error}");
    Extension::linked(&scene, "k3x9", "w1").await;
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.sock");
    drop(bind(&path).await.unwrap());
    assert!(path.exists());
    let listener = bind(&path).await.unwrap();
    let (connected, accepted) = tokio::join!(tokio::net::UnixStream::connect(&path), listener.accept());
    assert!(connected.is_ok() && accepted.is_ok());
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live.sock");
    let _listener = bind(&live).await.unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&live, &link).unwrap();
    let nowhere = folder.path().join("nowhere");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &nowhere).unwrap();
    let inside = folder.path().join("folder");
    std::fs::create_dir(&inside).unwrap();
    for path in [&file, &link, &nowhere, &inside] {
        let error = bind(path).await.unwrap_err();
        assert!(matches!(error, SocketError::InTheWay(_)), "{}: {error}", path.display());
        assert!(error.to_string().contains("move it"));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[tokio::test]
async fn a_socket_that_cannot_be_made_is_a_typed_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing/hub.sock"), folder.path().join("long".repeat(40))] {
        let error = bind(&path).await.unwrap_err();
        assert!(matches!(&error, SocketError::Io(named, _) if *named == path), "{error}");
    }
}
