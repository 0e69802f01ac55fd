/* What comes out of a codec is what went in, and nothing that is done to the bytes between makes it write past its
 * buffer: outputs are exactly as large as announced, so that ASan sees every byte too many. */
#include "io_test.h"

#include "io/codec.h"

#include <libdeflate.h>
#include <lz4.h>
#include <lz4frame.h>
#include <zlib.h>

/* Kinds of content: what compresses well, what does not, and what lies between. */
static void fill(char *bytes, size_t size, unsigned kind, uint64_t *random)
{
	for (size_t i = 0; i < size; i++) {
		switch (kind) {
		case 0:
			bytes[i] = 'x';
			break;
		case 1:
			bytes[i] = (char)random_next(random);
			break;
		default:
			bytes[i] = (char)("abcdefgh"[random_next(random) % 8] + (i / 1000) % 3);
		}
	}
}

static void round_trip(struct fixture *f, struct weir_codecs *codecs, enum weir_codec codec, int level, const char *in,
		       size_t size)
{
	size_t bound = weir_codec_bound(codec, size), packed_size;
	char *packed = malloc(bound + !bound), *out = malloc(size + !size), *exact;

	assert_ok(f, weir_codec_compress(codecs, codec, level, in, size, packed, bound, &packed_size, &f->error));
	assert_true(packed_size <= bound);
	exact = malloc(packed_size + !packed_size);
	memcpy(exact, packed, packed_size);
	memset(out, 0xee, size);
	assert_ok(f, weir_codec_decompress(codecs, codec, exact, packed_size, out, size, &f->error));
	assert_memory_equal(out, in, size);
	/* One byte more or less than there is must not pass. */
	if (size) {
		assert_int_equal(weir_codec_decompress(codecs, codec, exact, packed_size, out, size - 1, &f->error),
				 WEIR_E_DATA);
	}
	free(out);
	out = malloc(size + 1);
	assert_int_equal(weir_codec_decompress(codecs, codec, exact, packed_size, out, size + 1, &f->error),
			 WEIR_E_DATA);
	free(out);
	free(exact);
	free(packed);
}

static void test_round_trips(void **state)
{
	static const size_t sizes[] = {0, 1, 2, 7, 15, 16, 17, 100, 4095, 65536, 65537, 1000003};
	static const int levels[] = {0, 1, 3, 9};
	struct fixture *f = *state;
	struct weir_codecs *codecs;
	uint64_t random = test_seed(11);
	char *in = malloc(1000003);

	assert_ok(f, weir_codecs_new(f->account, &codecs, &f->error));
	for (unsigned codec = 0; codec < WEIR_CODEC_COUNT; codec++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (unsigned kind = 0; kind < 3; kind++)
				for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++) {
					if (sizes[s] > 100000 && l > 1)
						continue;
					fill(in, sizes[s], kind, &random);
					round_trip(f, codecs, (enum weir_codec)codec, levels[l], in, sizes[s]);
				}
	weir_codecs_free(codecs);
	free(in);
}

/* A cut or changed buffer gives an error or (where the format has no checksum) other bytes, never a byte outside. */
static void damage(struct fixture *f, struct weir_codecs *codecs, enum weir_codec codec, const char *in, size_t size)
{
	bool checked = codec == WEIR_CODEC_GZIP;
	size_t bound = weir_codec_bound(codec, size), packed_size;
	char *packed = malloc(bound), *out = malloc(size);

	assert_ok(f, weir_codec_compress(codecs, codec, 0, in, size, packed, bound, &packed_size, &f->error));
	for (size_t cut = 0; cut < packed_size; cut++) {
		char *exact = malloc(cut + !cut);

		memcpy(exact, packed, cut);
		if (weir_codec_decompress(codecs, codec, exact, cut, out, size, &f->error) != WEIR_E_DATA)
			fail_msg("%s cut to %zu of %zu bytes was accepted", weir_codec_name(codec), cut, packed_size);
		free(exact);
	}
	for (size_t bit = 0; bit < 8 * packed_size; bit++) {
		char *exact = malloc(packed_size);
		int code;

		memcpy(exact, packed, packed_size);
		exact[bit / 8] ^= (char)(1 << bit % 8);
		code = weir_codec_decompress(codecs, codec, exact, packed_size, out, size, &f->error);
		assert_true(code == WEIR_OK || code == WEIR_E_DATA);
		if (checked && code == WEIR_OK)
			assert_memory_equal(out, in, size);
		free(exact);
	}
	/* And the context is as good as before. */
	assert_ok(f, weir_codec_decompress(codecs, codec, packed, packed_size, out, size, &f->error));
	assert_memory_equal(out, in, size);
	free(packed);
	free(out);
}

static void test_damage(void **state)
{
	struct fixture *f = *state;
	struct weir_codecs *codecs;
	uint64_t random = test_seed(12);
	char in[900];

	assert_ok(f, weir_codecs_new(f->account, &codecs, &f->error));
	for (unsigned codec = WEIR_CODEC_SNAPPY; codec < WEIR_CODEC_COUNT; codec++)
		for (unsigned kind = 0; kind < 3; kind++) {
			fill(in, sizeof(in), kind, &random);
			damage(f, codecs, (enum weir_codec)codec, in, sizeof(in));
		}
	weir_codecs_free(codecs);
}

static void test_noise(void **state)
{
	struct fixture *f = *state;
	struct weir_codecs *codecs;
	uint64_t random = test_seed(13);

	assert_ok(f, weir_codecs_new(f->account, &codecs, &f->error));
	for (int round = 0; round < 20000; round++) {
		size_t size_in = random_next(&random) % 64, size_out = random_next(&random) % 200;
		char *in = malloc(size_in + !size_in), *out = malloc(size_out + !size_out);
		unsigned codec = (unsigned)(random_next(&random) % WEIR_CODEC_COUNT);
		int code;

		fill(in, size_in, 1, &random);
		if (size_in > 4 && codec >= WEIR_CODEC_LZ4_HADOOP && round % 2)
			memcpy(in, "\x04\x22\x4d\x18", 4);
		if (size_in > 4 && codec == WEIR_CODEC_ZSTD && round % 2)
			memcpy(in, "\x28\xb5\x2f\xfd", 4);
		code = weir_codec_decompress(codecs, (enum weir_codec)codec, in, size_in, out, size_out, &f->error);
		assert_true(code == WEIR_OK || code == WEIR_E_DATA);
		free(in);
		free(out);
	}
	weir_codecs_free(codecs);
}

static void test_what_is_called_gzip(void **state)
{
	struct fixture *f = *state;
	struct weir_codecs *codecs;
	struct libdeflate_compressor *deflate = libdeflate_alloc_compressor(6);
	uint64_t random = test_seed(14);
	char in[5000], packed[20000], out[5000];
	size_t size;

	assert_ok(f, weir_codecs_new(f->account, &codecs, &f->error));
	fill(in, sizeof(in), 2, &random);
	size = libdeflate_zlib_compress(deflate, in, sizeof(in), packed, sizeof(packed));
	assert_ok(f, weir_codec_decompress(codecs, WEIR_CODEC_GZIP, packed, size, out, sizeof(out), &f->error));
	assert_memory_equal(in, out, sizeof(in));
	packed[size - 1] ^= 1; /* its checksum */
	assert_int_equal(weir_codec_decompress(codecs, WEIR_CODEC_GZIP, packed, size, out, sizeof(out), &f->error),
			 WEIR_E_DATA);
	size = libdeflate_deflate_compress(deflate, in, sizeof(in), packed, sizeof(packed));
	assert_ok(f, weir_codec_decompress(codecs, WEIR_CODEC_GZIP, packed, size, out, sizeof(out), &f->error));
	assert_memory_equal(in, out, sizeof(in));

	/* Three members, one of them empty, then padding. */
	size = libdeflate_gzip_compress(deflate, in, 2000, packed, sizeof(packed));
	size += libdeflate_gzip_compress(deflate, in, 0, packed + size, sizeof(packed) - size);
	size += libdeflate_gzip_compress(deflate, in + 2000, 3000, packed + size, sizeof(packed) - size);
	memset(out, 0, sizeof(out));
	assert_ok(f, weir_codec_decompress(codecs, WEIR_CODEC_GZIP, packed, size, out, sizeof(out), &f->error));
	assert_memory_equal(in, out, sizeof(in));
	memset(packed + size, 0, 100);
	assert_ok(f, weir_codec_decompress(codecs, WEIR_CODEC_GZIP, packed, size + 100, out, sizeof(out), &f->error));
	packed[size + 99] = 1;
	assert_int_equal(
		weir_codec_decompress(codecs, WEIR_CODEC_GZIP, packed, size + 100, out, sizeof(out), &f->error),
		WEIR_E_DATA);
	libdeflate_free_compressor(deflate);
	weir_codecs_free(codecs);
}

/* zlib is the second opinion on what gzip means. */
static void test_zlib_reads_what_we_write(void **state)
{
	struct fixture *f = *state;
	struct weir_codecs *codecs;
	uint64_t random = test_seed(15);
	char in[5000], packed[8000], out[5000];
	z_stream stream = {0};
	size_t size;

	assert_ok(f, weir_codecs_new(f->account, &codecs, &f->error));
	fill(in, sizeof(in), 2, &random);
	assert_true(weir_codec_bound(WEIR_CODEC_GZIP, sizeof(in)) <= sizeof(packed));
	assert_ok(f, weir_codec_compress(codecs, WEIR_CODEC_GZIP, 0, in, sizeof(in), packed, sizeof(packed), &size,
					 &f->error));
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	stream.next_in = (Bytef *)packed;
	stream.avail_in = (uInt)size;
	stream.next_out = (Bytef *)out;
	stream.avail_out = sizeof(out);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	inflateEnd(&stream);
	assert_memory_equal(in, out, sizeof(in));
	weir_codecs_free(codecs);
}

static size_t hadoop_block(const char *in, size_t size, char *out)
{
	int packed = LZ4_compress_default(in, out + 4, (int)size, 10000);

	for (int i = 0; i < 4; i++)
		out[i] = (char)(packed >> (24 - 8 * i));
	return 4 + (size_t)packed;
}

static void test_what_is_called_lz4(void **state)
{
	struct fixture *f = *state;
	struct weir_codecs *codecs;
	uint64_t random = test_seed(16);
	char in[5000], packed[30000], out[5000];
	size_t size;

	assert_ok(f, weir_codecs_new(f->account, &codecs, &f->error));
	fill(in, sizeof(in), 2, &random);
	size = (size_t)LZ4_compress_default(in, packed, sizeof(in), sizeof(packed));
	assert_ok(f, weir_codec_decompress(codecs, WEIR_CODEC_LZ4_HADOOP, packed, size, out, sizeof(out), &f->error));
	assert_memory_equal(in, out, sizeof(in));
	/* Two frames after each other. */
	size = LZ4F_compressFrame(packed, sizeof(packed), in, 3000, NULL);
	size += LZ4F_compressFrame(packed + size, sizeof(packed) - size, in + 3000, 2000, NULL);
	memset(out, 0, sizeof(out));
	for (unsigned codec = WEIR_CODEC_LZ4_HADOOP; codec <= WEIR_CODEC_LZ4_FRAME; codec++) {
		assert_ok(f, weir_codec_decompress(codecs, (enum weir_codec)codec, packed, size, out, sizeof(out),
						   &f->error));
		assert_memory_equal(in, out, sizeof(in));
	}
	/* Two sections, the first of two blocks. */
	memcpy(packed, "\0\0\x0b\xb8", 4);
	size = 4;
	size += hadoop_block(in, 1000, packed + size);
	size += hadoop_block(in + 1000, 2000, packed + size);
	memcpy(packed + size, "\0\0\x07\xd0", 4);
	size += 4;
	size += hadoop_block(in + 3000, 2000, packed + size);
	memset(out, 0, sizeof(out));
	assert_ok(f, weir_codec_decompress(codecs, WEIR_CODEC_LZ4_HADOOP, packed, size, out, sizeof(out), &f->error));
	assert_memory_equal(in, out, sizeof(in));
	weir_codecs_free(codecs);
}

static int refuse(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked, (void)account, (void)more;
	return weir_error_set(err, WEIR_E_GIVE_UP, "an older split needs it");
}

/* The account's answer comes through the libraries unchanged, whichever allocation it is given to. */
static void test_refused_memory(void **state)
{
	struct fixture *f = *state;
	struct weir_account lane;
	uint64_t random = test_seed(17);
	char in[3000], packed[8000], out[3000];

	weir_account_init(&lane, f->account, "lane");
	lane.ask = refuse;
	fill(in, sizeof(in), 2, &random);
	for (unsigned codec = 0; codec < WEIR_CODEC_COUNT; codec++) {
		size_t packed_size = 0;
		bool refused = false;

		for (int64_t grant = 4096; grant < 64 << 20; grant = grant * 5 / 4) {
			struct weir_codecs *codecs;
			int code;

			lane.grant = grant;
			assert_ok(f, weir_codecs_new(&lane, &codecs, &f->error));
			code = weir_codec_compress(codecs, (enum weir_codec)codec, 0, in, sizeof(in), packed,
						   sizeof(packed), &packed_size, &f->error);
			if (!code)
				code = weir_codec_decompress(codecs, (enum weir_codec)codec, packed, packed_size, out,
							     sizeof(out), &f->error);
			assert_true(lane.used <= grant);
			weir_codecs_free(codecs);
			assert_int_equal(lane.used, 0);
			if (!code) {
				assert_memory_equal(in, out, sizeof(in));
				break;
			}
			assert_int_equal(code, WEIR_E_GIVE_UP);
			refused = true;
		}
		assert_true(packed_size > 0);
		assert_true(refused || codec == WEIR_CODEC_NONE || codec == WEIR_CODEC_SNAPPY);
	}
	weir_account_release(&lane);
}

static void test_names(void **state)
{
	struct fixture *f = *state;
	enum weir_codec codec;

	for (unsigned c = 0; c < WEIR_CODEC_COUNT; c++) {
		assert_ok(f, weir_codec_parse(weir_codec_name((enum weir_codec)c), &codec, &f->error));
		assert_int_equal(codec, c);
	}
	assert_ok(f, weir_codec_parse("UNCOMPRESSED", &codec, &f->error));
	assert_int_equal(codec, WEIR_CODEC_NONE);
	assert_int_equal(weir_codec_parse("lzo", &codec, &f->error), WEIR_E_VALUE);
	assert_non_null(strstr(f->error.message, "lzo"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trips, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_damage, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_noise, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_called_gzip, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_zlib_reads_what_we_write, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_called_lz4, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_refused_memory, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_names, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
