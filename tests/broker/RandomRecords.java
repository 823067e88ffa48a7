import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * RandomRecords COUNT: for each line of input, one of group, transaction, share and metadata, prints records of all types of
 * that topic in all their versions, as one line: [[type, version, key, value, key as JSON text, value as JSON text], ...].
 * Kafka's own classes write and show them. The fields are random.
 */
public final class RandomRecords {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int UNKNOWN_TAG = 999;
    private static final String[] STRINGS = {"", "a", "ünï \"\\\n", "\uD834\uDD1E", "x".repeat(200)};
    private final Random random;
    private final ArrayNode records = JSON.createArrayNode();

    private RandomRecords(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String topic = lines.readLine(); topic != null; topic = lines.readLine()) {
            RandomRecords some = new RandomRecords(topic.hashCode());
            if (topic.equals("metadata")) some.addMetadata(count);
            else some.addCoordinator("org.apache.kafka.coordinator." + topic + ".generated.", count);
            System.out.println(JSON.writeValueAsString(some.records));
        }
    }

    /** Adds records of a coordinator. Each coordinator has its own classes of the same names. */
    private void addCoordinator(String packageName, int count) throws Exception {
        Class<?> types = Class.forName(packageName + "CoordinatorRecordType");
        Class<?> converters = Class.forName(packageName + "CoordinatorRecordJsonConverters");
        var toKeyJson = converters.getMethod("writeRecordKeyAsJson", ApiMessage.class);
        var toValueJson = converters.getMethod("writeRecordValueAsJson", ApiMessage.class, short.class);
        for (Object type : types.getEnumConstants()) {
            ApiMessage empty = (ApiMessage) types.getMethod("newRecordValue").invoke(type);
            short id = (short) types.getMethod("id").invoke(type);
            for (short version = empty.lowestSupportedVersion(); version <= empty.highestSupportedVersion(); version++) {
                for (int i = 0; i < count; i++) {
                    ApiMessage key = filled((ApiMessage) types.getMethod("newRecordKey").invoke(type), (short) 0);
                    ApiMessage value = filled((ApiMessage) types.getMethod("newRecordValue").invoke(type), version);
                    ObjectNode keyText = JSON.createObjectNode().put("type", Short.toString(id));
                    keyText.set("data", (JsonNode) toKeyJson.invoke(null, key));
                    ObjectNode valueText = JSON.createObjectNode().put("version", Short.toString(version));
                    valueText.set("data", (JsonNode) toValueJson.invoke(null, value, version));
                    records.addArray().add(id).add(version).add(MessageUtil.toCoordinatorTypePrefixedBytes(key))
                        .add(MessageUtil.toVersionPrefixedBytes(version, value)).add(keyText.toString()).add(valueText.toString());
                }
            }
        }
    }

    private void addMetadata(int count) throws Exception {
        for (MetadataRecordType type : MetadataRecordType.values()) {
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++) {
                for (int i = 0; i < count; i++) {
                    ApiMessageAndVersion record = new ApiMessageAndVersion(filled(type.newMetadataRecord(), version), version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
                    byte[] bytes = new byte[serde.recordSize(record, cache)];
                    serde.write(record, cache, new ByteBufferAccessor(ByteBuffer.wrap(bytes)));
                    ObjectNode text = JSON.createObjectNode().put("type", type.name()).put("version", version);
                    text.set("data", MetadataJsonConverters.writeJson(record.message(), version));
                    records.addArray().add(type.id()).add(version).addNull().add(bytes).addNull().add(text.toString());
                }
            }
        }
    }

    /** Sets the fields that this version of a message has. Tagged fields sometimes keep their defaults. */
    private <T extends Message> T filled(T message, short version) throws Exception {
        for (BoundField bound : ((Schema[]) message.getClass().getField("SCHEMAS").get(null))[version].fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values()) {
                    if (random.nextInt(3) > 0) set(message, field, version);
                }
                if (random.nextInt(4) == 0) message.unknownTaggedFields().add(new RawTaggedField(UNKNOWN_TAG, new byte[] {1, 2}));
            } else {
                set(message, bound.def, version);
            }
        }
        return message;
    }

    private void set(Message message, Field field, short version) throws Exception {
        StringBuilder name = new StringBuilder();
        for (String word : field.name.split("_")) name.append(Character.toUpperCase(word.charAt(0))).append(word.substring(1));
        var declared = message.getClass().getDeclaredField(Character.toLowerCase(name.charAt(0)) + name.substring(1));
        // Only the generated code knows which structs can be null. Those are null by default.
        boolean isNullable = field.type.isNullable()
            || field.type instanceof Schema && message.getClass().getMethod(declared.getName()).invoke(message) == null;
        Object value = isNullable && random.nextInt(4) == 0 ? null : value(declared.getGenericType(), field.type, version);
        message.getClass().getMethod("set" + name, declared.getType()).invoke(message, value);
    }

    private Object value(java.lang.reflect.Type type, Type schema, short version) throws Exception {
        switch (type.getTypeName()) {
            case "byte": case "java.lang.Byte": return (byte) random.nextInt();
            case "short": case "java.lang.Short": return (short) random.nextInt();
            case "int": case "java.lang.Integer": return schema == Type.UINT16 ? random.nextInt(1 << 16) : random.nextInt();
            case "long": case "java.lang.Long": return random.nextLong();
            case "boolean": return random.nextBoolean();
            case "double": return random.nextGaussian() * 1e6;
            case "java.lang.String": return STRINGS[random.nextInt(STRINGS.length)];
            case "org.apache.kafka.common.Uuid": return new Uuid(random.nextLong(), random.nextLong());
            case "byte[]":
                byte[] bytes = new byte[random.nextInt(200)];
                random.nextBytes(bytes);
                return bytes;
            default:
        }
        if (schema instanceof Schema) return filled((Message) ((Class<?>) type).getConstructor().newInstance(), version);
        Collection<Object> elements = new ArrayList<>();
        if (type instanceof Class<?> collection) { // the elements are also found by a key
            elements = newCollection(collection);
            type = collection.getGenericSuperclass();
        }
        java.lang.reflect.Type element = ((ParameterizedType) type).getActualTypeArguments()[0];
        for (int left = random.nextInt(4); left > 0; left--) elements.add(value(element, schema.arrayElementType().get(), version));
        return elements;
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> newCollection(Class<?> type) throws Exception {
        return (Collection<Object>) type.getConstructor().newInstance();
    }
}
