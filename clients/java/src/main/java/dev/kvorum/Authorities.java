package dev.kvorum;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Trust in the authorities of a file. */
final class Authorities {
    private Authorities() {}

    /** What trusts the certificates of a PEM file, and no others. */
    static SSLContext contextOf(Path file) {
        try (var pem = Files.newInputStream(file)) {
            var store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            int count = 0;
            for (var certificate : CertificateFactory.getInstance("X.509").generateCertificates(pem))
                store.setCertificateEntry("authority-" + count++, certificate);
            if (count == 0) throw new IllegalArgumentException(file + " has no certificate");
            var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            var context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException unreadable) {
            throw new UncheckedIOException("the file of authorities", unreadable);
        } catch (GeneralSecurityException wrong) {
            throw new IllegalArgumentException("the file of authorities: " + file, wrong);
        }
    }
}
