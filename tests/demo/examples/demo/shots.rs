//! Pictures of what the owner sees.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use consentry_test_support::cdp::Cdp;
use consentry_test_support::chromium::{self, Chromium};
use consentry_test_support::hub::{Layout, ScratchHub};
use consentry_test_support::xsession::XSession;
use serde_json::json;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

/// How long the status page may take to show what goes on.
const SHOWN: Duration = Duration::from_secs(20);

/// Of a dialog, as it stands on the screen.
pub(crate) fn dialog(screen: &XSession, layout: &Layout, place: &Path) -> anyhow::Result<()> {
    let connection = screen.connect()?;
    let root = connection.setup().roots.first().context("the display has no screen")?.root;
    let (x, y) = (i16::try_from(layout.window.x)?, i16::try_from(layout.window.y)?);
    let (width, height) = (u16::try_from(layout.window.w)?, u16::try_from(layout.window.h)?);
    let image = connection.get_image(ImageFormat::Z_PIXMAP, root, x, y, width, height, u32::MAX)?.reply()?;
    // The server keeps blue, green, red and a byte that means nothing.
    let pixels: Vec<u8> =
        image.data.chunks_exact(4).flat_map(|pixel| [pixel[2], pixel[1], pixel[0]]).collect();
    let file = std::fs::File::create(place).with_context(|| format!("cannot write {}", place.display()))?;
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), width.into(), height.into());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}

/// Of the status page, in a browser of its own, once it shows this text.
pub(crate) async fn status_page(hub: &ScratchHub, text: &str, place: &Path) -> anyhow::Result<()> {
    let link = hub.run(&["open", "--print"]).await?.stdout;
    let browser = Chromium::launch(chromium::Options::default()).await?;
    let cdp = Cdp::connect(browser.endpoint()).await?;
    let page = cdp.open_page(link.trim()).await?;
    let size = json!({ "width": 1100, "height": 900, "deviceScaleFactor": 1, "mobile": false });
    cdp.call(Some(&page), "Emulation.setDeviceMetricsOverride", size).await?;
    cdp.call(Some(&page), "Emulation.setScrollbarsHidden", json!({ "hidden": true })).await?;
    let end = Instant::now() + SHOWN;
    let wanted =
        json!({ "expression": "document.body ? document.body.innerText : ''", "returnByValue": true });
    loop {
        let shown = cdp.call(Some(&page), "Runtime.evaluate", wanted.clone()).await?;
        if shown["result"]["value"].as_str().is_some_and(|shown| shown.contains(text)) {
            break;
        }
        if Instant::now() >= end {
            bail!("the status page does not show {text:?} but {}", shown["result"]["value"]);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let picture = cdp.call(Some(&page), "Page.captureScreenshot", json!({ "format": "png" })).await?;
    let picture = STANDARD.decode(picture["data"].as_str().unwrap_or_default())?;
    std::fs::write(place, picture).with_context(|| format!("cannot write {}", place.display()))?;
    browser.kill().await
}
