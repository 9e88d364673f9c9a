# tl.extra.libdevice: Bessel functions. Computed in float64, rounded once to float32.
#
# Below 8 a function is the product of its distances from its roots, which are given to twice the precision, and of a polynomial in
# x**2 that has none; so it is precise near its roots too. Y has a logarithm at 0: what remains of it without (2 / pi) log(x / y) J, y a
# root of Y, is such a product again. From 8 on functions are waves whose amplitudes are polynomials in 1 / x**2: there the error is that of
# sin and cos, below 1e-16 in all. Polynomials are interpolated in Chebyshev's points to the last place.
import tegula.language as tl
from tegula import jit
from tegula.language.extra import libdevice


@jit(exact=True)
def _square_less(x, HIGH: tl.constexpr, LOW: tl.constexpr):
    # x**2 - root**2 for root = HIGH + LOW.
    return ((x - HIGH) - LOW) * (x + HIGH)


@jit(exact=True)
def _j_near(x, ORDER: tl.constexpr):
    # 0 <= x <= 8
    t = x * x
    u = t * 0.03125 - 1.0
    if ORDER == 0:
        p = libdevice._poly(u, (2.490925929179199e-07, -2.0143812740844396e-07, 7.452952389147671e-08,
                                -1.6925343273758472e-08, 2.668802990843418e-09, -3.132090078847118e-10,
                                2.8624251936630927e-11, -2.1036225324066828e-12, 1.273604790285362e-13,
                                -6.4739327378052795e-15, 2.8055882127243085e-16, -1.049828831900901e-17,
                                3.437290092834566e-19, -9.881806415527134e-21))
        r = (t - 74.88700679069518) * (t - 139.04028442645986) * p
        return _square_less(x, 2.404825557695773, -1.176691651530894e-16) * _square_less(x, 5.520078110286311, 8.088597146146722e-17) * r
    else:
        p = libdevice._poly(u, (1.8740589011123988e-08, -1.341759947298079e-08, 4.4431372774164915e-09,
                                -9.11552565831384e-10, 1.309020035116168e-10, -1.4089411833253643e-11,
                                1.1881779406976774e-12, -8.101069706268041e-14, 4.571978354858101e-15,
                                -2.1755590045422838e-16, 8.859371780651165e-18, -3.1257082840870315e-19,
                                9.676494666610552e-21, -2.638469179933337e-22))
        r = (t - 103.49945389513658) * (t - 177.52076681380464) * p
        return _square_less(x, 3.8317059702075125, -1.5269184090088067e-16) * _square_less(x, 7.015586669815619, -9.414165653410389e-17) * r * x


@jit(exact=True)
def _waves(x, ORDER: tl.constexpr):
    # x >= 8: J and Y, by amplitudes in phase and out of it. sqrt(2) cos(x - pi / 4) = cos x + sin x, and so on.
    v = 8.0 / x
    u = 2.0 * v * v - 1.0
    if ORDER == 0:
        p = libdevice._poly(u, (0.9994572757882519, -0.0005363673192129684, 6.137416080147722e-06,
                                -2.0527448258799454e-07, 1.2803760990761632e-08, -1.2121099519052884e-09,
                                1.5500758850965851e-10, -2.4911156906092825e-11, 4.7832464504070676e-12,
                                -1.0160586409351026e-12, 2.486651879170221e-13, -1.0240462527458219e-13,
                                3.2274659236696375e-14))
        q = libdevice._poly(u, (-0.12444091103610815, 0.0005466519279475117, -1.1817110661199724e-05,
                                5.684971887324096e-07, -4.5349728393922074e-08, 5.146225589983031e-09,
                                -7.57632926931228e-10, 1.3626359564350156e-10, -2.8707565261924586e-11,
                                6.8818527860469436e-12, -1.8731177440368512e-12, 5.520265629286774e-13,
                                -1.3175768260882e-13, 4.085343187221175e-14, -4.046427325528616e-14,
                                1.6262268161564722e-14))
    else:
        p = libdevice._poly(u, (1.0009070262780821, 0.0008988049416705195, -7.959694698478657e-06,
                                2.45367663311693e-07, -1.470851251614582e-08, 1.360297066536911e-09,
                                -1.713127898085761e-10, 2.7234187811287063e-11, -5.1871998149145174e-12,
                                1.0958092927251801e-12, -2.668914316041983e-13, 1.0911783467601572e-13,
                                -3.4273425511664546e-14))
        q = libdevice._poly(u, (0.3742149922195918, -0.00076971670576437, 1.4569614809828342e-05,
                                -6.633568561252034e-07, 5.136106034386487e-08, -5.720890726108569e-09,
                                8.316054768262827e-10, -1.4816645190838213e-10, 3.101014520989263e-11,
                                -7.46416005204052e-12, 1.993145349755006e-12, -4.923339389851518e-13,
                                1.4696599919708492e-13, -1.073572214809827e-13, 4.074705384627214e-14))
    s, c = tl.sin(x), tl.cos(x)
    k = 0.5641895835477563 / tl.sqrt(x)
    q = q / x
    if ORDER == 0:
        return k * (p * (s + c) - q * (s - c)), k * (p * (s - c) + q * (s + c))
    else:
        return k * (p * (s - c) + q * (s + c)), k * (q * (s - c) - p * (s + c))


@jit(exact=True)
def _logarithm(x, HIGH: tl.constexpr, LOW: tl.constexpr, LOG: tl.constexpr):
    # log(x / root): from the distance near the root, LOG is the root's logarithm.
    near = libdevice.log1p(((x - HIGH) - LOW) * (1.0 / HIGH))
    return tl.where(x < 0.5 * HIGH, tl.log(x) - LOG, near)


@jit(exact=True)
def _y_near(x, j, ORDER: tl.constexpr):
    # 0 < x <= 8; j = J(x)
    t = x * x
    if ORDER == 0:
        u = t * 0.3950617283950617 - 1.0
        a = libdevice._poly(u, (0.14320274701362387, -0.03565001300672889, 0.0031438491568998215,
                                -0.00014358168191962097, 4.026756949269305e-06, -7.654223207480462e-08,
                                1.0522433833447011e-09, -1.0954849052414764e-11, 8.94080362560045e-14,
                                -5.874474821600706e-16))
        a = _square_less(x, 0.8935769662791675, 2.6596231539720385e-17) * a
        la = _logarithm(x, 0.8935769662791675, 2.6596231539720385e-17, -0.11252280788079415)
        u = t * 0.0794044665012407 - 1.401985111662531
        b = libdevice._poly(u, (-0.04019829421303566, 0.016435457369141027, 0.002227914796908477,
                                -0.0020355253811380433, 0.00044565544629470046, -5.4212417562729086e-05,
                                4.37927278424875e-06, -2.557858625841747e-07, 1.1382276557033272e-08,
                                -4.00143936019148e-10, 1.1417648991216737e-11, -2.7036328413381016e-13,
                                5.390467006574369e-15))
        b = _square_less(x, 3.957678419314858, -1.0764340697562706e-16) * b
        lb = _logarithm(x, 3.957678419314858, -1.0764340697562706e-16, 1.3756575956013473)
        u = t * 0.05925925925925926 - 2.7925925925925927
        c = libdevice._poly(u, (0.019735159455870212, -0.0018910092640708495, -0.0035212775545103016,
                                0.0009993814792056553, -6.156801877853784e-05, -1.3767330513261688e-05,
                                3.4153562181673887e-06, -3.8757871008768984e-07, 2.9044523356291644e-08,
                                -1.6049662111320123e-09, 6.916421626405603e-11, -2.4079204408242837e-12,
                                6.955991691081675e-14, -1.6924192382864787e-15))
        c = _square_less(x, 7.086051060301773, -8.835285723085408e-17) * c
        lc = _logarithm(x, 7.086051060301773, -8.835285723085408e-17, 1.9581282122177381)
        rest = tl.where(x < 2.25, a, tl.where(x < 5.5, b, c))
        l = tl.where(x < 2.25, la, tl.where(x < 5.5, lb, lc))
    else:
        u = t * 0.14222222222222222 - 1.0
        a = libdevice._poly(u, (0.18584916591713221, 0.0068932481441418385, -0.03668712767099946,
                                0.00923012953367811, -0.001082697234225227, 7.664699236651294e-05,
                                -3.679022430684498e-06, 1.2833882775100316e-07, -3.4103774467178644e-09,
                                7.144710669108957e-11, -1.2121584623010955e-12, 1.69870536450436e-14))
        a = _square_less(x, 2.197141326031017, -4.8259835876454966e-17) * a
        la = _logarithm(x, 2.197141326031017, -4.8259835876454966e-17, 0.7871571181569951)
        u = t * 0.04005006257822278 - 1.563204005006258
        b = libdevice._poly(u, (-0.1388997861409034, 0.05733033675143781, 0.06142429055379337,
                                -0.033320809356019325, 0.0017588056079169904, 0.0023424473566024803,
                                -0.0008135999156155792, 0.00014535191111406578, -1.7382862514031592e-05,
                                1.5326555805241859e-06, -1.0504022718354294e-07, 5.79282520525393e-09,
                                -2.635743709881035e-10, 1.0086198187552157e-11, -3.3054050609247537e-13,
                                9.336000521061624e-15))
        b = _square_less(x, 5.429681040794135, 4.162514026670377e-16) * b
        lb = _logarithm(x, 5.429681040794135, 4.162514026670377e-16, 1.6918803920353296)
        rest = tl.where(x < 3.75, a, b) / x
        l = tl.where(x < 3.75, la, lb)
    return 0.6366197723675814 * l * j + rest


@jit(exact=True)
def _j(x, ORDER: tl.constexpr):
    # x >= 0
    near = x < 8.0
    far, _ = _waves(tl.where(near, 8.0, x), ORDER)
    r = tl.where(near, _j_near(tl.where(near, x, 0.0), ORDER), far)
    return tl.where(x == float("inf"), 0.0, r)


@jit(exact=True)
def _y(x, ORDER: tl.constexpr):
    near = x < 8.0
    _, far = _waves(tl.where(near, 8.0, x), ORDER)
    w = tl.where(near & (x > 0.0), x, 1.0)
    r = tl.where(near, _y_near(w, _j_near(w, ORDER), ORDER), far)
    r = tl.where(x == float("inf"), 0.0, r)
    return tl.where(x == 0.0, -float("inf"), tl.where(x < 0.0, float("nan"), r))


@jit(exact=True)
def j0(arg0):
    x = libdevice._real(arg0)
    return _j(tl.abs(x.to(tl.float64)), 0).to(x.dtype)


@jit(exact=True)
def j1(arg0):
    x = libdevice._real(arg0)
    w = x.to(tl.float64)
    r = _j(tl.abs(w), 1)
    return tl.where(w.to(tl.int64, bitcast=True) < 0, -r, r).to(x.dtype)


@jit(exact=True)
def y0(arg0):
    x = libdevice._real(arg0)
    return _y(x.to(tl.float64), 0).to(x.dtype)


@jit(exact=True)
def y1(arg0):
    x = libdevice._real(arg0)
    return _y(x.to(tl.float64), 1).to(x.dtype)


# Of any order: by the recurrence f(k + 1) + f(k - 1) = (2 k / x) f(k), in the direction in which what is wanted grows.


@jit(exact=True)
def _largest(n):
    if len(n.shape) == 0:
        return n
    else:
        return tl.max(n)


@jit(exact=True)
def _order_and_argument(n, x):
    n = tl.to_tensor(n)
    tl.static_assert(n.dtype == tl.int32, "libdevice: the order is int32")
    return tl.broadcast(n, x.to(tl.float64))


@jit(exact=True)
def _upward(n, x, f0, f1):
    # f(n) from f(0) and f(1), n >= 1
    for k in range(1, _largest(n)):
        more = k < n
        f2 = tl.where(tl.abs(f1) == float("inf"), f1, (2.0 * k / x) * f1 - f0)
        f0 = tl.where(more, f1, f0)
        f1 = tl.where(more, f2, f1)
    return f1


@jit(exact=True)
def _downward(n, x):
    # J(n) for 1e-100 < x < n: downward from far above n, then scaled so that J(0) + 2 J(2) + 2 J(4) + ... = 1.
    top = _largest(n)
    first = top + tl.sqrt(160.0 * top.to(tl.float64)).to(tl.int32) + 2
    f1 = tl.zeros_like(x)
    f0 = f1 + 1.0
    found, total = f1, f1
    for i in range(0, first):
        k = first - i
        f0, f1 = (2.0 * k / x) * f0 - f1, f0
        found = tl.where(k - 1 == n, f0, found)
        total += tl.where((k - 1) % 2 == 0, tl.where(k == 1, f0, 2.0 * f0), 0.0)
        scale = tl.where(tl.abs(f0) > 1e150, 1e-150, 1.0)
        f0, f1, found, total = f0 * scale, f1 * scale, found * scale, total * scale
    return found / total


@jit(exact=True)
def jn(arg0, arg1):
    x = libdevice._real(arg1)
    n, w = _order_and_argument(arg0, x)
    a = tl.abs(w)
    plain = (n >= 2) & (a < float("inf"))
    up = plain & (a >= n)
    down = plain & (a > 1e-100) & (a < n)
    j0, j1 = _j(a, 0), _j(a, 1)
    r = tl.where(n == 0, j0, _upward(tl.where(up, n, 1), tl.where(up, a, 1.0), j0, j1))
    r = tl.where(down, _downward(tl.where(down, n, 2), tl.where(down, a, 1.0)), r)
    tiny = plain & (a <= 1e-100)
    r = tl.where(tiny, tl.where(n == 2, a * a * 0.125, tl.where(n == 3, a * (a * a) / 48.0, 0.0)), r)
    r = tl.where((w.to(tl.int64, bitcast=True) < 0) & (n % 2 != 0), -r, r)
    return tl.where((n < 0) | (w != w), float("nan"), r).to(x.dtype)


@jit(exact=True)
def yn(arg0, arg1):
    x = libdevice._real(arg1)
    n, w = _order_and_argument(arg0, x)
    plain = (n >= 2) & (w > 0.0) & (w < float("inf"))
    y0, y1 = _y(w, 0), _y(w, 1)
    r = tl.where(n == 0, y0, _upward(tl.where(plain, n, 1), tl.where(plain, w, 1.0), y0, y1))
    return tl.where((n < 0) | (w != w), float("nan"), r).to(x.dtype)


# Modified: power series below 8, then exp(x) / sqrt(x) times a polynomial in 1 / x.


@jit(exact=True)
def _modified(x, near, far):
    half = tl.exp(tl.where(x < 8.0, 8.0, x) * 0.5)
    r = tl.where(x < 8.0, near, half * (far / tl.sqrt(tl.where(x < 8.0, 8.0, x))) * half)
    return tl.where(x == float("inf"), x, r)


@jit(exact=True)
def cyl_bessel_i0(arg0):
    x = libdevice._real(arg0)
    a = tl.abs(x.to(tl.float64))
    t = tl.where(a < 8.0, a * a, 0.0)
    u = 16.0 / tl.where(a < 8.0, 8.0, a) - 1.0
    near = libdevice._poly(t, (1.0, 0.25, 0.015625, 0.00043402777777777775, 6.781684027777777e-06,
                               6.781684027777778e-08, 4.709502797067901e-10, 2.4028075495244395e-12,
                               9.385966990329842e-15, 2.896903392077112e-17, 7.242258480192779e-20,
                               1.4963343967340453e-22, 2.5978027721077174e-25, 3.842903509035085e-28,
                               4.9016626390753635e-31, 5.4462918211948485e-34, 5.318644356635594e-37,
                               4.60090342269515e-40, 3.5500798014623073e-43, 2.458504017633177e-46,
                               1.5365650110207356e-49, 8.71068600351891e-53, 4.499321282809354e-56))
    far = libdevice._poly(u, (0.4021765094450081, 0.003360551983667854, 0.00013621607439232746,
                              1.1143033791556743e-05, 1.4838475473607391e-06, 2.973598432479169e-07,
                              8.87225351128584e-08, 3.932602459703109e-08, 2.1545177650836005e-08,
                              7.553516470355896e-09, -6.729724111923548e-09, -1.3404241991980871e-08,
                              -5.4685974495866e-09, 7.540601378890834e-09, 7.58022133915272e-09,
                              -3.4857887470034955e-09, -6.188265090497361e-09, 1.497880830187091e-09,
                              3.881151253996067e-09, -5.562201990080394e-10, -1.7789375042917173e-09,
                              1.4672236659214398e-10, 5.181936971288284e-10, -1.9216763724933513e-11,
                              -7.06893851181878e-11))
    return _modified(a, near, far).to(x.dtype)


@jit(exact=True)
def cyl_bessel_i1(arg0):
    x = libdevice._real(arg0)
    w = x.to(tl.float64)
    a = tl.abs(w)
    t = tl.where(a < 8.0, a * a, 0.0)
    u = 16.0 / tl.where(a < 8.0, 8.0, a) - 1.0
    near = a * libdevice._poly(t, (0.5, 0.0625, 0.0026041666666666665, 5.425347222222222e-05,
                                   6.781684027777778e-07, 5.651403356481481e-09, 3.363930569334215e-11,
                                   1.5017547184527747e-13, 5.214426105738801e-16, 1.4484516960385557e-18,
                                   3.2919356728148996e-21, 6.234726653058522e-24, 9.991549123491221e-27,
                                   1.3724655389411017e-29, 1.6338875463584545e-32, 1.7019661941233902e-35,
                                   1.564307163716351e-38, 1.2780287285264307e-41, 9.342315267006072e-45,
                                   6.146260044082942e-48, 3.658488121477942e-51, 1.9797013644361157e-54,
                                   9.781133223498595e-58))
    far = libdevice._poly(u, (0.38939845902587233, -0.009749577193235728, -0.00021923576383430274,
                              -1.5038547201176271e-05, -1.8349101134666435e-06, -3.483855609009937e-07,
                              -1.0001323461066435e-07, -4.312935369971356e-08, -2.337059627111857e-08,
                              -8.426622829598154e-09, 6.715795128085017e-09, 1.4029693589852716e-08,
                              6.040877342160988e-09, -7.630751970065577e-09, -8.044231276166508e-09,
                              3.406636130196794e-09, 6.4870195719816896e-09, -1.4171698018664596e-09,
                              -4.047785403711858e-09, 5.146498826087142e-10, 1.8513716745511988e-09,
                              -1.342266320082222e-10, -5.388285995923524e-10, 1.7502497778701306e-11,
                              7.347992441734663e-11))
    r = _modified(a, near, far)
    return tl.where(w.to(tl.int64, bitcast=True) < 0, -r, r).to(x.dtype)
