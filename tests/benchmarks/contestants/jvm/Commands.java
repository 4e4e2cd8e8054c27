package peers;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Takes commands from stdin, a line each with fields between tabs, and answers each with a line. The end of stdin is the end. */
final class Commands {
  interface Command {
    void run(String[] fields) throws Exception;
  }

  private Commands() {}

  static void serve(Command command) throws IOException {
    PrintStream answers = System.out;
    System.setOut(System.err); // what libraries print goes to the log
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    answers.println("java " + System.getProperty("java.version"));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      try {
        command.run(line.split("\t"));
        answers.println("done");
      } catch (Throwable e) {
        e.printStackTrace();
        answers.println("failed " + String.valueOf(e).replaceAll("\\s+", " "));
      }
      answers.flush();
    }
    System.exit(0);
  }
}
