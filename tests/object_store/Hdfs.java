import java.io.File;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS with one data node, until standard input ends. Prints its URL. Arguments: its folder, a folder to copy. */
class Hdfs {
    public static void main(String[] args) throws Exception {
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(new Configuration(), new File(args[0])).numDataNodes(1).build();
        cluster.waitActive();
        var files = cluster.getFileSystem();
        var target = new org.apache.hadoop.fs.Path("/data");
        files.copyFromLocalFile(new org.apache.hadoop.fs.Path(Path.of(args[1]).toUri()), target);
        System.out.println(cluster.getURI());
        while (System.in.read() >= 0) { }
        cluster.shutdown();
    }
}
