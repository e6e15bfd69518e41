// Printed by tools/derive_polynomials.py, which says how they are found. Lowest power first.
#pragma once

namespace flambeau::loop::math {

// exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2; error 2^-57.9.
inline constexpr double kExp[] = {
    0x1.000000000000ap-1,  0x1.555555555550cp-3,  0x1.55555555507a7p-5,  0x1.1111111124837p-7,
    0x1.6c16c184374bbp-10, 0x1.a01a013789a10p-13, 0x1.a0199a1071209p-16, 0x1.71df0e1ed34e1p-19,
    0x1.28ad5d0c970acp-22, 0x1.ad9d3c102a871p-26,
};

// exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2, for float32; error 2^-28.3.
inline constexpr float kExpSingle[] = {
    0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aap-5f, 0x1.12396ep-7f, 0x1.6a5242p-10f,
};

// erf(x) = x + x P(z), z = x^2, |x| <= 0.92, for float32; error 2^-29.9.
inline constexpr float kErfSingle[] = {
    0x1.06eba8p-3f, -0x1.812740p-2f,  0x1.ce2d60p-4f,  -0x1.b8007ep-6f,
    0x1.54423cp-8f, -0x1.a5b788p-11f, 0x1.4e3670p-14f,
};

// erfc(x) = exp(-P(x)), 0.92 <= x <= 4, for float32; error 2^-29.3.
inline constexpr float kErfTailSingle[] = {
    0x1.af7b94p-13f, 0x1.20ac86p+0f, 0x1.46469ap-1f,   0x1.a96cbep-4f,
    -0x1.6b9c78p-6f, 0x1.8dbc4ep-9f, -0x1.98fe50p-13f,
};

// 2^r = 1 + r P(r), |r| <= 1/2; the rest of the first coefficient is kExp2FirstLow; error 2^-59.7.
inline constexpr double kExp2[] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58ep-3,  0x1.c6b08d704a1d5p-5,  0x1.3b2ab6fba519fp-7,
    0x1.5d87fe7873f52p-10, 0x1.430912f756d41p-13, 0x1.ffcbfd4b66e50p-17, 0x1.62c02725bdca9p-20,
    0x1.b5232cd3066dfp-24, 0x1.e4bba739997a5p-28, 0x1.ec7a5f4614e08p-32, 0x1.e0bcf2d351749p-36,
};

// sinh(r) = r + r z P(z), z = r^2, |r| <= ln(2)/2; error 2^-61.7.
inline constexpr double kSinh[] = {
    0x1.5555555555559p-3,  0x1.111111110f62ap-7,  0x1.a01a01b020543p-13,
    0x1.71ddf7afc66d0p-19, 0x1.af5ff394dff07p-26,
};

// cosh(r) = 1 + z/2 + z^2 P(z), z = r^2, |r| <= ln(2)/2; error 2^-70.0.
inline constexpr double kCosh[] = {
    0x1.5555555555558p-5,  0x1.6c16c16c14ffap-10, 0x1.a01a01ad81053p-16,
    0x1.27e4cc090c0bfp-22, 0x1.1f8bef0b987d9p-29,
};

// log((1+s)/(1-s)) = 2 s + s z P(z), z = s^2, |s| <= 3 - 2 sqrt(2); error 2^-58.5.
inline constexpr double kLog[] = {
    0x1.5555555555593p-1, 0x1.999999997f9f4p-2, 0x1.249249422abb3p-2, 0x1.c71c51d747f35p-3,
    0x1.746649d1fd19dp-3, 0x1.39a0917ea78b5p-3, 0x1.2f11ad420f6e1p-3,
};

// log((1+s)/(1-s)) = 2 s + 2/3 s z + s z^2 P(z); error 2^-65.3.
inline constexpr double kLogTail[] = {
    0x1.9999999999b31p-2, 0x1.2492492457b72p-2, 0x1.c71c722d93233p-3, 0x1.745ce9d35e0b3p-3,
    0x1.3b1eef0ac6003p-3, 0x1.0f7fa10552949p-3, 0x1.0e45667ded603p-3,
};

// sin(r) = r + r z P(z), z = r^2, |r| <= pi/4; error 2^-58.0.
inline constexpr double kSin[] = {
    -0x1.5555555555549p-3, 0x1.111111110f8a5p-7,   -0x1.a01a019c15e7ep-13,
    0x1.71de357ae5a1fp-19, -0x1.ae5e686debd56p-26, 0x1.5d9394b192b6fp-33,
};

// cos(r) = 1 - z/2 + z^2 P(z), z = r^2, |r| <= pi/4; error 2^-64.2.
inline constexpr double kCos[] = {
    0x1.555555555554cp-5,   -0x1.6c16c16c1521ep-10, 0x1.a01a019cbf39ap-16,
    -0x1.27e4f81290b39p-22, 0x1.1ee9f134b52b4p-29,  -0x1.8fb11fc43a891p-37,
};

// asin(x) = x + x z P(z), z = x^2 <= 1/4; error 2^-59.8.
inline constexpr double kAsin[] = {
    0x1.5555555555578p-3, 0x1.333333332df1dp-4, 0x1.6db6db722ae61p-5, 0x1.f1c71a8bd6979p-6,
    0x1.6e8bdfdf49a54p-6, 0x1.1c49de941276cp-6, 0x1.ca21352c62420p-7, 0x1.7578145f6986fp-7,
    0x1.61878297907bdp-7, 0x1.e18fe5d21bed2p-9, 0x1.64f0bcf9fef89p-6, -0x1.59dc3d36e81abp-6,
    0x1.0bdb96ff439e4p-5,
};

// atan(x) = x + x z P(z), z = x^2, |x| <= 7/16; error 2^-57.7.
inline constexpr double kAtan[] = {
    -0x1.555555555550cp-2, 0x1.999999998e9cep-3, -0x1.2492491ffd3d6p-3, 0x1.c71c6fde4fff5p-4,
    -0x1.745cdbef9103ap-4, 0x1.3b0f2493bbae8p-4, -0x1.10d62807624bap-4, 0x1.dddf6be9845e4p-5,
    -0x1.97a6bbf7ddb1dp-5, 0x1.2b240fb489487p-5, -0x1.0a93b7eb46f94p-6,
};

// erf(x) = x + x P(z), z = x^2 <= 1; error 2^-56.0.
inline constexpr double kErf[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b037a32p-2,  0x1.ce2f21a046dc5p-4,  -0x1.b82ce313f3506p-6,
    0x1.565bcd4f313f7p-8,  -0x1.c02dc1c505352p-11, 0x1.f9a507b336d44p-14, -0x1.f4fe46aca0f4cp-17,
    0x1.bca571eae055bp-20, -0x1.7d970c2230a3fp-23, 0x1.ddaae851fa23fp-26, -0x1.34e616f4128f9p-27,
    0x1.7f9cc713d4e98p-29, -0x1.ce15342e6d9d9p-32,
};

// (1 + 2x) exp(x^2) erfc(x) = P(t), t = (x - 3.5) / (x + 3.5), 1/2 <= x <= 28; error 2^-56.1.
inline constexpr double kErfc[] = {
    0x1.3e0a99a0ee914p+0,   -0x1.1ebd220ea593ap-3,  -0x1.59e2c284b1a01p-7,  0x1.8f702ec6b31fep-4,
    -0x1.d76830c34f8f8p-4,  0x1.68610604713abp-4,   -0x1.8ff5ef776dcd8p-5,  0x1.38ec66709c125p-6,
    -0x1.143c4c70b3aa2p-8,  -0x1.3cf368b6700f1p-12, 0x1.27e659e652192p-11,  -0x1.fda913698bf69p-14,
    -0x1.66df75fb2c643p-15, 0x1.9708d3311df30p-16,  0x1.3818d2ec956f8p-19,  -0x1.fffaa898b1a3ap-19,
    -0x1.5661fcaaa636ap-25, 0x1.4216aa399ca64p-21,  -0x1.8a292ab91178ap-27, -0x1.8d5dad8a82554p-24,
    0x1.ed049b255450ep-30,  0x1.5beeb88f060e3p-27,
};

// erfinv(x) = x P(w - 2.5), w = -log(1 - x^2) <= 5; error 2^-53.7.
inline constexpr double kErfinvSmall[] = {
    0x1.805c5cfcedef5p+0,   0x1.f91e8993f0d14p-3,   -0x1.11c3c302e0212p-8,  -0x1.4863cdfb608d7p-10,
    0x1.c9b437ed345f2p-13,  -0x1.4f47fe787ff7cp-18, -0x1.ca9227c40dc26p-19, 0x1.01037e96532b7p-21,
    0x1.ccff61c502ab3p-27,  -0x1.752ff3072d209p-27, 0x1.f2ccc5249fc4ep-31,  0x1.070872aa34f9fp-33,
    -0x1.119ef854ed21fp-35, 0x1.ffd440a22996dp-41,  0x1.2e52837e6cf7ep-41,  -0x1.54746f4214f0cp-44,
    -0x1.c7c17bc9972cdp-49, 0x1.070722d032d80p-49,  -0x1.d720be3905f5fp-54, -0x1.8c2bdb3b142a0p-56,
    0x1.78f6547dee87cp-59,
};

// erfinv(x) = x P(sqrt(w) - 3), 5 <= w <= 16; error 2^-52.6.
inline constexpr double kErfinvMiddle[] = {
    0x1.6a9efbd66eae6p+1,   0x1.006dca7a9c22bp+0,   0x1.3582c811527b4p-7,   -0x1.f4f1c6f0c657bp-8,
    0x1.7495888c0dbd5p-8,   -0x1.d2754fcfa4f7cp-9,  0x1.84f3ee3d7ffd6p-10,  -0x1.38431390e595fp-13,
    -0x1.28e0c1bb35d10p-12, 0x1.af0011388bce4p-13,  -0x1.85b7135632923p-15, -0x1.7fc95e35d373ep-16,
    0x1.6fd504e73580fp-16,  -0x1.8e7a20a82e337p-18, -0x1.b59dd944cb00ep-20, 0x1.08fa374056405p-19,
    -0x1.68eb2d12e549ep-21, -0x1.531972df9f7c8p-25, 0x1.8c042755387f9p-23,  -0x1.a8dc37a845b8dp-24,
    -0x1.9985011ce65e4p-29, 0x1.a5984590f8aa0p-26,  -0x1.cfa290df5ef1bp-28, -0x1.5f83d4f845c97p-32,
};

// erfinv(x) = x P(sqrt(w) - 5), 16 <= w <= 37; error 2^-53.4.
inline constexpr double kErfinvLarge[] = {
    0x1.3664ddd1ad7fbp+2,  0x1.02a30d1fba10bp+0,   -0x1.22ea5df23c70bp-13, -0x1.c2f36aa13d811p-13,
    0x1.3ebf4f11a103ep-14, -0x1.4a34905a7bd88p-16, 0x1.2fbcefa213dd7p-18,  -0x1.0a9024780556ep-20,
    0x1.ebebb5f0c2f7ap-23, -0x1.223db56877b52p-24, 0x1.f1c9d596c2f58p-26,  -0x1.052160513e136p-26,
    0x1.0f32994536e0ap-27, -0x1.e94ccd15a9f72p-29, 0x1.56e89f0901875p-30,  -0x1.83fccc33a719fp-32,
    0x1.ce13b3c345ef2p-34, -0x1.55c28213f6ed5p-40, -0x1.eddf0cf67c460p-36, 0x1.5305b8c8d5ed7p-37,
};

// lgamma(2 + t) = t P(t), |t| <= 1/2; error 2^-57.4.
inline constexpr double kLgamma[] = {
    0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa6p-2,   -0x1.13e001a5574aep-4,  0x1.51322ac7d8a2ep-6,
    -0x1.e404fc2266c94p-8,  0x1.7add6eaca3cdfp-9,   -0x1.38ac5b59ddd92p-10, 0x1.0b36b0470d712p-11,
    -0x1.d3fe1ea0b56bdp-13, 0x1.a1271a1d2c13fp-14,  -0x1.78a10c398d415p-15, 0x1.5831fbeb7623ap-16,
    -0x1.47e2d61282d1dp-17, 0x1.20001e187c35dp-18,  0x1.dcda81ee9ea48p-22,  0x1.91e827b2990e0p-20,
    -0x1.9f170774f3099p-17, -0x1.190983484187ep-19, 0x1.293d49ea614e9p-15,  0x1.a1a5655cc82bdp-18,
    -0x1.f644385482a49p-15, -0x1.3cbeb567c453bp-17, 0x1.6d1fd95d34474p-15,  0x1.a71834c692733p-18,
};

// lgamma(x) = (x - 1/2)(log x - 1) + log(2 pi)/2 - 1/2 + P(1/x^2)/x, x >= 8; error 2^-57.6.
inline constexpr double kStirling[] = {
    0x1.5555555555555p-4,  -0x1.6c16c16c0667ep-9,  0x1.a01a009a1923fp-11, -0x1.3811f76ec66b6p-11,
    0x1.b837d350298a7p-11, -0x1.c2b91baaf6828p-10, -0x1.7bd3e61ea25dbp-9, 0x1.2a5cad7b6e599p-3,
};

// digamma(x) = (x - root) P(x - 3/2), 1 <= x <= 2; error 2^-54.3.
inline constexpr double kDigamma[] = {
    0x1.e6f0cbb873616p-1,   -0x1.b1cb63005ee96p-2,  0x1.eca189b8e7544p-3,  -0x1.2feeeb98a7f19p-3,
    0x1.8512e58fc56cep-4,   -0x1.fb4420298be73p-5,  0x1.4de9aa4f3f086p-5,  -0x1.b9f8b15014dcep-6,
    0x1.256463ac59a26p-6,   -0x1.86355a351a40bp-7,  0x1.03c2ab6e13dc8p-7,  -0x1.5a07bba46be47p-8,
    0x1.ccc45ad544250p-9,   -0x1.335a85244a3c1p-9,  0x1.9f20513a342a7p-10, -0x1.108910833500bp-10,
    0x1.37e8b35dec05fp-11,  -0x1.f243e7d3e17bap-12, 0x1.3e50f31ec3156p-11, -0x1.5a3b22081d889p-13,
    -0x1.89bf1331a59e6p-12, -0x1.538bbcb3b3cf3p-13, 0x1.e0e66110c53f1p-12,
};

// digamma(x) = log x - 1/(2x) - P(1/x^2)/x^2, x >= 8; error 2^-70.3.
inline constexpr double kDigammaTail[] = {
    0x1.5555555555555p-4,  -0x1.111111110fb24p-7, 0x1.041040fc58db9p-8,
    -0x1.111106862becep-8, 0x1.f0741a6d25a12p-8,  -0x1.58af8bc1767d1p-6,
    0x1.4604ac4857eb6p-4,  -0x1.310e9778c3225p-2, 0x1.3e3aaf9eabe65p-3,
};

// pi/2
inline constexpr double kHalfPi = 0x1.921fb54442d18p+0;
inline constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
inline constexpr double kHalfPiTail = -0x1.f1976b7ed8fbcp-110;

// 2/pi
inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
inline constexpr double kTwoOverPiLow = -0x1.6b01ec5417056p-55;
inline constexpr double kTwoOverPiTail = -0x1.6447e493ad4cep-109;

// 1 / ln(2)
inline constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
inline constexpr double kInverseLn2Low = 0x1.777d0ffda0d24p-56;
inline constexpr double kInverseLn2Tail = -0x1.60bb8a5442ab9p-110;

// 1 / ln(10)
inline constexpr double kInverseLn10 = 0x1.bcb7b1526e50ep-2;
inline constexpr double kInverseLn10Low = 0x1.95355baaafad3p-57;
inline constexpr double kInverseLn10Tail = 0x1.ee191f71a3012p-112;

// log10(2)
inline constexpr double kLog10Of2 = 0x1.34413509f79ffp-2;
inline constexpr double kLog10Of2Low = -0x1.9dc1da994fd21p-59;
inline constexpr double kLog10Of2Tail = 0x1.22f04d5a618a8p-114;

// 2/3
inline constexpr double kTwoThirds = 0x1.5555555555555p-1;
inline constexpr double kTwoThirdsLow = 0x1.5555555555555p-55;
inline constexpr double kTwoThirdsTail = 0x1.5555555555555p-109;

// ln(2)
inline constexpr double kExp2First = 0x1.62e42fefa39efp-1;
inline constexpr double kExp2FirstLow = 0x1.abc9e3b39803fp-56;
inline constexpr double kExp2FirstTail = 0x1.7b57a079a1934p-111;

// The positive zero of digamma
inline constexpr double kDigammaRoot = 0x1.762d86356be3fp+0;
inline constexpr double kDigammaRootLow = 0x1.b86a722197829p-54;
inline constexpr double kDigammaRootTail = 0x1.e0d62a6be90c7p-109;

// log(pi)
inline constexpr double kLogPi = 0x1.250d048e7a1bdp+0;
inline constexpr double kLogPiLow = 0x1.7abf2ad8d5088p-57;
inline constexpr double kLogPiTail = -0x1.6ccf43244818ap-113;

// log(2 pi)/2 - 1/2
inline constexpr double kStirlingConstant = 0x1.acfe390c97d69p-2;
inline constexpr double kStirlingConstantLow = 0x1.3494bc9001442p-56;
inline constexpr double kStirlingConstantTail = -0x1.b7f70c13dc1ccp-110;

}  // namespace flambeau::loop::math
