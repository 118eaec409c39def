//! A path over standard input and output, for a program that starts us itself.

use rmcp::ServiceExt as _;

use crate::server::PathServer;

/// Serves until the input ends.
///
/// # Errors
/// When the other side does not begin as MCP wants it, or the pipe breaks.
pub async fn serve_stdio(server: PathServer) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let running = server.serve(rmcp::transport::stdio()).await?;
    running.waiting().await?;
    Ok(())
}
