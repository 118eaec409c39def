//! What reaches browsers beside the extension's links, and how two ways are one.

mod devtools;
mod either;

pub use devtools::{DevTools, DevToolsSource};
pub use either::Either;
