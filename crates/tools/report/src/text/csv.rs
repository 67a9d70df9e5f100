//! Every figure of some runs as CSV: one line each, numbers in base units, so that other tools can take it from there.

use super::lines::lines;
use crate::run::Run;

/// The columns. `value` is in `unit`; it is empty where the figure was not told, and `needs` then says how many samples it needs.
const HEAD: &str = "run,experiment,table,role,system,details,figure,path,unit,value,needs,samples,repetitions,contended,void,command";

/// A field as RFC 4180 has it. Text that a spreadsheet would run as a formula gets an apostrophe in front.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn number<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// Every figure of `runs`. Times are ns, rates per second or Mbit/s; repetitions are separated by blanks.
pub fn csv(runs: &[&Run]) -> String {
    let mut out = format!("{HEAD}\r\n");
    for line in lines(runs) {
        let repetitions: Vec<String> = line.repetitions.iter().map(f64::to_string).collect();
        let fields = [
            field(&line.run),
            field(&line.experiment),
            field(&line.table),
            line.role.to_owned(),
            field(&line.system),
            field(&line.details),
            field(&line.figure),
            field(&line.path),
            line.unit.to_owned(),
            number(line.value),
            number(line.needs),
            number(line.samples),
            repetitions.join(" "),
            line.contended.to_string(),
            field(&line.void),
            field(&line.command),
        ];
        out.push_str(&fields.join(","));
        out.push_str("\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_disarmed() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(field("two\nlines"), "\"two\nlines\"");
    }
}
