//! `synth-trace MIX ACTIONS DIR [SEED]`: a trace that no program made, see [`reprise_testkit::synthetic`].

use std::path::Path;
use std::process::ExitCode;

use reprise_testkit::synthetic::{Mix, write};

fn run() -> Result<(), String> {
    const USAGE: &str = "usage: synth-trace mail|database|build|processes|reads ACTIONS DIR [SEED]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mix, actions, dir, rest @ ..] = &args[..] else { return Err(USAGE.into()) };
    let number = |text: &str| text.replace('_', "").parse::<u64>().map_err(|_| USAGE.to_owned());
    let mix: Mix = mix.parse()?;
    let seed = rest.first().map_or(Ok(1), |seed| number(seed))?;
    write(Path::new(dir), mix, number(actions)?, seed).map_err(|e| e.to_string())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("synth-trace: {cause}");
            ExitCode::from(2)
        }
    }
}
