//! The page that everybody reads: a form, some links and many rows.

use std::fmt::Write as _;

/// How many rows.
pub(crate) const SIZES: [usize; 3] = [100, 1_000, 5_000];

/// What is clicked.
pub(crate) const BUTTON: &str = "button \"Save\"";

/// What stands in the last row.
pub(crate) fn last(rows: usize) -> String {
    format!("Buy {}", rows - 1)
}

pub(crate) fn html(rows: usize) -> String {
    let mut list = String::new();
    for row in 0..rows {
        // Writing to memory does not fail.
        let _ = write!(
            list,
            "<li><a href=\"/item/{row}\">Item number {row}</a> <button>Buy {row}</button> <span>${}.99</span></li>",
            row * 3
        );
    }
    format!(
        "<!doctype html><meta charset=utf-8><title>Orders</title><h1>Orders</h1>\
         <nav><a href=\"/home\">Home</a> <a href=\"/help\">Help</a></nav>\
         <form onsubmit=\"return false\"><label>Name <input></label>\
         <label>Country <select><option>France<option>Germany</select></label>\
         <label><input type=checkbox> Agree</label>\
         <button type=button onclick=\"document.getElementById('said').textContent='Saved '+(++saved)\">Save</button>\
         </form><p id=said>Not saved</p><ul>{list}</ul><script>var saved = 0</script>"
    )
}
