import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** For each line of input, locks a file as a broker locks `.lock`, prints "locked" or "busy", and unlocks it. */
public class Lock {
    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        while (commands.readLine() != null) {
            boolean isLocked;
            try (FileChannel file = FileChannel.open(Path.of(arguments[0]), StandardOpenOption.CREATE,
                    StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                isLocked = file.tryLock() != null;
            }
            System.out.println(isLocked ? "locked" : "busy");
        }
    }
}
