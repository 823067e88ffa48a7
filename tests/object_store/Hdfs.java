import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * An HDFS with one data node, until standard input ends. Prints its URL. Arguments: its folder, a folder to copy, and for
 * Kerberos the protection of blocks (authentication, integrity, privacy). The folder gets krb5.conf, reader.keytab,
 * tokens and conf/core-site.xml for clients then.
 */
class Hdfs {
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        var conf = new Configuration();
        // How long a writer of a file waits before it asks again whether its block has arrived.
        conf.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5");
        if (args.length > 2) {
            secure(conf, folder, args[2]);
        }
        var cluster = new MiniDFSCluster.Builder(conf, folder.resolve("dfs").toFile()).numDataNodes(1).build();
        cluster.waitActive();
        var files = cluster.getFileSystem();
        var target = new org.apache.hadoop.fs.Path("/data");
        files.copyFromLocalFile(new org.apache.hadoop.fs.Path(Path.of(args[1]).toUri()), target);
        if (args.length > 2) {
            var tokens = new Credentials();
            files.addDelegationTokens("hdfs", tokens);
            tokens.writeTokenStorageFile(new org.apache.hadoop.fs.Path(folder.resolve("tokens").toUri()), conf);
        }
        System.out.println(cluster.getURI());
        while (System.in.read() >= 0) { }
        System.exit(0);
    }

    /** Starts a key distribution center, and lets the cluster require its tickets. */
    static void secure(Configuration conf, Path folder, String protection) throws Exception {
        var kdc = new MiniKdc(MiniKdc.createConf(), Files.createDirectories(folder.resolve("kdc")).toFile());
        kdc.start();
        Files.copy(kdc.getKrb5conf().toPath(), folder.resolve("krb5.conf"));
        File service = folder.resolve("service.keytab").toFile();
        kdc.createPrincipal(service, "hdfs/localhost", "HTTP/localhost");
        kdc.createPrincipal(folder.resolve("reader.keytab").toFile(), "reader");
        var client = new Configuration(false);
        client.set("hadoop.security.authentication", "kerberos");
        client.set("dfs.namenode.kerberos.principal", "hdfs/localhost@" + kdc.getRealm());
        client.set("dfs.datanode.kerberos.principal", "hdfs/localhost@" + kdc.getRealm());
        client.set("dfs.data.transfer.protection", protection);
        for (var each : client) {
            conf.set(each.getKey(), each.getValue());
        }
        conf.set("dfs.namenode.keytab.file", service.toString());
        conf.set("dfs.datanode.keytab.file", service.toString());
        conf.set("dfs.web.authentication.kerberos.principal", "HTTP/localhost@" + kdc.getRealm());
        conf.set("dfs.web.authentication.kerberos.keytab", service.toString());
        conf.set("dfs.block.access.token.enable", "true");
        conf.set("ignore.secure.ports.for.testing", "true");
        try (var output = Files.newOutputStream(Files.createDirectories(folder.resolve("conf")).resolve("core-site.xml"))) {
            client.writeXml(output);
        }
        UserGroupInformation.setConfiguration(conf);
        UserGroupInformation.loginUserFromKeytab("hdfs/localhost", service.toString());
    }
}
